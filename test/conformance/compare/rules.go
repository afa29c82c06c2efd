package compare

import "regexp"

// rule says which behaviour a difference is an instance of. Every expression
// that is given must match.
type rule struct {
	number              string
	path, multus, nadra string
}

// rules are tried in order.
var rules = []rule{
	// Pods that only Multus starts.
	{number: "A2-15", path: `^outcome$`, nadra: `is the address of a network`},
	{number: "A2-15-twice", path: `^outcome$`, nadra: `both ask for address`},
	{number: "A2-17", path: `^outcome$`, nadra: `\.mac: Invalid value`},
	{number: "A2-20", path: `^outcome$`, nadra: `\.portMappings\[`},
	{number: "A2-21", path: `^outcome$`, nadra: `\.bandwidth\.`},
	{number: "A2-24", path: `^outcome$`, nadra: `\.infiniband-guid`},
	{number: "A2-25", path: `^outcome$`, nadra: `\.ipam-claim-reference: Forbidden`},
	{number: "B7", path: `^outcome$`, multus: `^success$`, nadra: `default-route`},
	{number: "B9", path: `^outcome$`, multus: `^success$`, nadra: `serves no pools`},
	// Pods that only nadra starts.
	{number: "A1-7-broken", path: `^outcome$`, multus: `unexpected end of JSON input`, nadra: `^success$`},

	{number: "B3-default", path: `^outcome$`, multus: `tryLoadK8sPodDefaultNetwork`, nadra: `^success$`},

	// Pods that nobody starts.
	{number: "B4-early", path: `^failed: plugins that ran$`},
	{number: "B4-del", path: `^failed: DEL `, multus: `^called$`, nadra: `^not called$`},
	{number: "B5-stuck", path: `^failed: end$`, nadra: `^success$`},
	{number: "B5-owed", path: `^failed twice: left\.files\..*/conformance/(state|cdi)/`, multus: `^\(absent\)$`},
	{number: "B5-owed", path: `^failed twice: DEL `, multus: `^not called$`, nadra: `^called$`},
	{number: "B4-del", path: `^failed twice: DEL `, multus: `^called$`, nadra: `^not called$`},

	// What plugins are given.
	{number: "A4-53", path: `^(ADD|DEL) .*\.runtimeConfig(\.portMappings|\.bandwidth)?$`, multus: `portMappings|bandwidth|hostPort|Rate`, nadra: `^\(absent\)$`},
	{number: "A5-63", path: `\.runtimeConfig\.CNIDeviceInfoFile$`},
	{number: "A5-63", path: `\.runtimeConfig$`, multus: `CNIDeviceInfoFile`},
	{number: "A5-63", path: `\.runtimeConfig$`, nadra: `CNIDeviceInfoFile`},
	{number: "A5-63", path: `^status\[\d+\]\.device-info`},
	{number: "A2-20-protocol", path: `^ADD .*\.portMappings\[\d+\]\.protocol$`, multus: `^\(absent\)$`, nadra: `^tcp$`},
	{number: "A2-12-empty", path: `^(ADD|DEL) .*\.stdin\.args$`, multus: `^\{"cni":\{\}\}$`},
	{number: "A2-12-empty", path: `^ADD .*\.CNI_ARGS\.IP$`, multus: `^$`},
	{number: "B5-args", path: `^(failed: )?DEL .*\.CNI_ARGS\.(MAC|IP)$`, multus: `^\(absent\)$`},
	{number: "B5-runtime", path: `^DEL .*\.runtimeConfig(\.(portMappings|bandwidth).*)?$`},
	{number: "B5-stripped", path: `^end$`, multus: `no IP ranges specified`, nadra: `^success$`},

	// A pod without additional networks has no claim, and so none of nadra's work.
	{number: "A3-33", path: `^status$`, multus: `cluster-net`, nadra: `^\(absent\)$`},
}

// Number returns the behaviour that a difference is an instance of; none if
// nobody has thought of it.
func Number(d Difference) string {
	for _, r := range rules {
		if matches(r.path, d.Path) && matches(r.multus, d.Multus) && matches(r.nadra, d.Nadra) {
			return r.number
		}
	}
	return ""
}

func matches(expression, text string) bool {
	return regexp.MustCompile(expression).MatchString(text)
}

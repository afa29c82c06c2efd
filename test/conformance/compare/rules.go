package compare

import "regexp"

// rule identifies the behaviour of a difference. Every expression that is set must match.
type rule struct {
	number              string
	path, multus, nadra string
	asks                string // the pod's annotation
}

// rules are tried in order.
var rules = []rule{
	// Pods that only Multus starts.
	{number: "A1-2-size", path: `^outcome$`, multus: `^success$`, nadra: `spec\.config: \[LimitExceeded\]`},
	{number: "A2-15", path: `^outcome$`, nadra: `(?s)\[AnnotationInvalid\].*\.ips\[\d+\]: Invalid value: "[0-9a-f.:]+/\d+"`},
	{number: "A2-15-twice", path: `^outcome$`, nadra: `\[AddressConflict\]`},
	{number: "A2-17-length", path: `^outcome$`, nadra: `(?s)\[AnnotationInvalid\].*\.mac: Invalid value`},
	{number: "A2-20", path: `^outcome$`, nadra: `(?s)\[AnnotationInvalid\].*\.portMappings\[`},
	{number: "A2-21", path: `^outcome$`, nadra: `(?s)\[AnnotationInvalid\].*\.bandwidth\.`},
	{number: "A2-24-length", path: `^outcome$`, nadra: `(?s)\[AnnotationInvalid\].*\.infiniband-guid`},
	{number: "A2-25", path: `^outcome$`, nadra: `(?s)\[AnnotationInvalid\].*\.ipam-claim-reference: Forbidden`},
	{number: "B9-1", path: `^outcome$`, multus: `^success$`, nadra: `\[DeviceMismatch\]`},
	// Pods that only nadra starts.
	{number: "A2-23", path: `^outcome$`, multus: `does not support ECMP`, nadra: `^success$`},
	{number: "B7-5", path: `^outcome$`, multus: `error setting default gateway: (network is unreachable|no route to host)`, nadra: `^success$`},
	{number: "A1-7-broken", path: `^outcome$`, multus: `unexpected end of JSON input`, nadra: `^success$`},

	{number: "B3-3", path: `^outcome$`, multus: `tryLoadK8sPodDefaultNetwork`, nadra: `^success$`},

	// Pods that nobody starts.
	{number: "B4-early", path: `^failed: plugins that ran$`},
	{number: "B4-6", path: `^failed: DEL `, multus: `^called$`, nadra: `^not called$`},
	{number: "B5-stuck", path: `^failed: end$`, nadra: `^success$`},
	{number: "B5-pending-del", path: `^failed twice: left\.files\..*/conformance/(state|cdi)/`, multus: `^\(absent\)$`},
	{number: "B5-pending-del", path: `^failed twice: DEL `, multus: `^not called$`, nadra: `^called$`},
	{number: "B4-6", path: `^failed twice: DEL `, multus: `^called$`, nadra: `^not called$`},

	// The target of the default route, and where it is reported.
	{number: "B7-2", path: `^added\.routes\.table 254: (0\.0\.0\.0|::)/0 dev `, asks: `"default-route"`},
	{number: "B7-3", path: `^DEL .*\.prevResult(\.routes(\[\d+\](\.dst)?)?)?$`, asks: `"default-route"`},
	{number: "A3-40", path: `^status\[\d+\]\.gateway$`, asks: `"default-route"`},
	{number: "A3-40", path: `^status\[\d+\]\.gateway`, multus: `<nil>`},

	// The input of plugins.
	{number: "A4-53", path: `^(ADD|DEL) .*\.runtimeConfig(\.portMappings|\.bandwidth)?$`, multus: `portMappings|bandwidth|hostPort|Rate`, nadra: `^\(absent\)$`},
	{number: "A5-63", path: `\.runtimeConfig\.CNIDeviceInfoFile$`},
	{number: "A5-63", path: `\.runtimeConfig$`, multus: `CNIDeviceInfoFile`},
	{number: "A5-63", path: `\.runtimeConfig$`, nadra: `CNIDeviceInfoFile`},
	{number: "A5-63", path: `^status\[\d+\]\.device-info`},
	{number: "A2-20-protocol", path: `^ADD .*\.portMappings\[\d+\]\.protocol$`, multus: `^\(absent\)$`, nadra: `^tcp$`},
	{number: "A2-12-empty", path: `^(ADD|DEL) .*\.stdin\.args$`, multus: `^\{"cni":\{\}\}$`},
	{number: "A2-12-empty", path: `^ADD .*\.CNI_ARGS\.IP$`, multus: `^$`},
	{number: "B5-6", path: `^DEL .*\.runtimeConfig(\.(portMappings|bandwidth).*)?$`},
	{number: "B5-stripped", path: `^end$`, multus: `no IP ranges specified`, nadra: `^success$`},
	{number: "B5-version", path: `^DEL .*\.stdin\.cniVersion$`, multus: `^1\.0\.0$`, nadra: `^$`},
	{number: "B5-version", path: `^DEL .*\.stdin\.prevResult$`, multus: `^\{"cniVersion":"1\.0\.0"`, nadra: `^\(absent\)$`},

	// nadra does nothing for a pod without additional networks, because it has no claim.
	{number: "A3-33-alone", path: `^status$`, multus: `"default":true`, nadra: `^\(absent\)$`},
}

// Number returns the number of the behaviour that a difference shows, for a pod with the
// annotation asked, or "" if no rule matches.
func Number(d Difference, asked string) string {
	for _, r := range rules {
		if matches(r.path, d.Path) && matches(r.multus, d.Multus) && matches(r.nadra, d.Nadra) && matches(r.asks, asked) {
			return r.number
		}
	}
	return ""
}

func matches(expression, text string) bool {
	return regexp.MustCompile(expression).MatchString(text)
}

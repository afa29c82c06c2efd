package translate

import (
	"slices"
	"strings"
)

// Code names a rule. A code is never reused for another rule. From 200 on they are those of doctor's checks, from 300 on
// of upgrades, from 400 on of snapshots, from 470 on of canaries, and from 500 on of the removal of nadra and of orphans.
// Their rules are in these packages.
type Code string

// The codes. Numbers below 10 are about the annotation, below 20 about the networks that it
// names, below 30 about the pod, below 40 about resources, quotas and claims, below 50 about the
// manifest, below 60 about network operators, below 70 more about networks and their pools,
// below 80 about the nodes, below 90 more about the annotation, networks and the pod, below 100 about virtual machines,
// below 110 more about workloads.
const (
	BadAnnotation        Code = "NADRA-001"
	SlashInName          Code = "NADRA-002"
	UnknownKey           Code = "NADRA-003"
	ControllerAnnotation Code = "NADRA-004"
	DefaultNetwork       Code = "NADRA-005"
	NoNetworks           Code = "NADRA-006"
	KeyWithoutEffect     Code = "NADRA-007"
	Contradiction        Code = "NADRA-008"
	StrayAnnotation      Code = "NADRA-009"

	NetworkNotInInput  Code = "NADRA-010"
	NetworkMissing     Code = "NADRA-011"
	NetworkNotJSON     Code = "NADRA-012"
	NetworkOnNodes     Code = "NADRA-013"
	NetworkUnusable    Code = "NADRA-014"
	NetworkOwned       Code = "NADRA-015"
	NamespaceAssumed   Code = "NADRA-016"
	PoolsNotServed     Code = "NADRA-017"
	PoolsNotServedUser Code = "NADRA-018"
	ClaimedByHand      Code = "NADRA-019"

	NoContainers    Code = "NADRA-020"
	HostNetwork     Code = "NADRA-021"
	VMRuntime       Code = "NADRA-022"
	ExclusiveCPUs   Code = "NADRA-023"
	StaticPod       Code = "NADRA-024"
	OwnedWorkload   Code = "NADRA-025"
	SeveralClaims   Code = "NADRA-026"
	ClaimNameTaken  Code = "NADRA-027"
	ClaimReplaced   Code = "NADRA-028"
	VirtualMachines Code = "NADRA-029"

	ResourceSurplus    Code = "NADRA-030"
	ResourceShortfall  Code = "NADRA-031"
	ResourceUnread     Code = "NADRA-032"
	QuotaOldName       Code = "NADRA-033"
	KueueOldName       Code = "NADRA-034"
	ClaimLeftOver      Code = "NADRA-035"
	ClaimAlone         Code = "NADRA-036"
	ResourceNotMatched Code = "NADRA-037"
	ClaimUnseen        Code = "NADRA-038"

	NotYAML             Code = "NADRA-040"
	SharedByAnchor      Code = "NADRA-041"
	NotEditable         Code = "NADRA-042"
	TemplateChanged     Code = "NADRA-043"
	TemplateNotInInput  Code = "NADRA-044"
	Unrendered          Code = "NADRA-045"
	NameInvalid         Code = "NADRA-046"
	ClassChanged        Code = "NADRA-047"
	KustomizationAlters Code = "NADRA-048"

	NetworkOfOperator Code = "NADRA-050"

	AnnotationRead     Code = "NADRA-060"
	NetworkOfAgent     Code = "NADRA-061"
	NetworkTwice       Code = "NADRA-062"
	NetworkWithoutPool Code = "NADRA-063"
	NetworkUsesMultus  Code = "NADRA-064"
	NodeSelectorAdded  Code = "NADRA-065"
	NodeSelectorUnread Code = "NADRA-066"
	PoolUnserved       Code = "NADRA-067"
	PoolOfOther        Code = "NADRA-068"
	NetworkMayDraw     Code = "NADRA-069"

	PluginOnNoNode    Code = "NADRA-070"
	PluginOnSomeNodes Code = "NADRA-071"
	MasterOnNoNode    Code = "NADRA-072"
	MasterOnSomeNodes Code = "NADRA-073"

	CapabilityMissing  Code = "NADRA-080"
	PodFieldMisplaced  Code = "NADRA-081"
	TwoAnnotations     Code = "NADRA-082"
	AnnotationMoved    Code = "NADRA-083"
	LimitExceeded      Code = "NADRA-084"
	NetworkAwaited     Code = "NADRA-085"
	RangeOnEachNode    Code = "NADRA-086"
	RouteCoversCluster Code = "NADRA-087"
	DefaultRouteInVRF  Code = "NADRA-088"
	SysctlOfInterface  Code = "NADRA-089"

	VirtualMachineServed Code = "NADRA-090"
	BindingPlugin        Code = "NADRA-091"
	KueueMapping         Code = "NADRA-092"

	AddressOfSeveralPods Code = "NADRA-100"
	NodeNamed            Code = "NADRA-101"
	NodeNamedClaim       Code = "NADRA-102"
)

// Rule explains a code.
type Rule struct {
	Code Code `json:"code"`
	// Severity is the usual one: an obstacle to an upgrade may be milder.
	Severity Severity `json:"severity"`
	Title    string   `json:"title"`
	What     string   `json:"what"`
	Why      string   `json:"why"`
	Fix      string   `json:"fix"`
}

// Anchor returns the address of the rule in the documentation. The rules of other packages have pages of their own.
func (c Code) Anchor() string {
	page := "docs/reference/findings.md"
	for prefix, other := range map[string]string{
		"NADRA-2": "docs/reference/checks.md", "NADRA-3": "docs/migrate/upgrade-blockers.md", "NADRA-4": "docs/reference/verify-codes.md",
		"NADRA-50": "docs/install/uninstall.md", "NADRA-51": "docs/operate/cleanup.md",
	} {
		if strings.HasPrefix(string(c), prefix) {
			page = other
		}
	}
	return page + "#" + strings.ToLower(string(c))
}

// Rules returns all rules, sorted by code.
func Rules() []Rule { return slices.Clone(rules) }

// RuleOf returns the rule of a code.
func RuleOf(c Code) (Rule, bool) { return FindRule(rules, c) }

// FindRule finds the rule of a code in rules that are sorted by code.
func FindRule(rules []Rule, c Code) (Rule, bool) {
	i, found := slices.BinarySearchFunc(rules, c, func(r Rule, c Code) int { return strings.Compare(string(r.Code), string(c)) })
	if !found {
		return Rule{}, false
	}
	return rules[i], true
}

func severityOf(c Code) Severity {
	r, _ := RuleOf(c)
	return r.Severity
}

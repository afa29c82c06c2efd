package snapshot

import (
	"slices"
	"strings"
)

// Code identifies a kind of difference. It is never reused for another kind.
type Code string

// The codes. Numbers below 10 are about pods, below 20 about which networks they
// have, below 30 about an interface's addresses, below 40 about devices and
// variables, below 50 about interfaces as nodes observe them, below 60 about routing
// and sysctls, below 70 about NetworkAttachmentDefinitions.
const (
	PodMissing    Code = "NADRA-V01"
	PodAdditional Code = "NADRA-V02"
	PodRecreated  Code = "NADRA-V03"
	NodeOther     Code = "NADRA-V04"
	SystemOther   Code = "NADRA-V05"
	HostNetwork   Code = "NADRA-V06"
	PodEnded      Code = "NADRA-V07"
	NotCompared   Code = "NADRA-V08"

	NetworkMissing Code = "NADRA-V10"
	NetworkAdded   Code = "NADRA-V11"
	Renamed        Code = "NADRA-V12"
	OrderOther     Code = "NADRA-V13"
	DefaultOther   Code = "NADRA-V14"
	CheckFailed    Code = "NADRA-V15"

	MACLost       Code = "NADRA-V20"
	MACOther      Code = "NADRA-V21"
	MTUOther      Code = "NADRA-V22"
	AddressLost   Code = "NADRA-V23"
	AddressOther  Code = "NADRA-V24"
	SubnetOther   Code = "NADRA-V25"
	SubnetUnknown Code = "NADRA-V26"
	AddressFewer  Code = "NADRA-V27"
	AddressAdded  Code = "NADRA-V28"
	DNSOther      Code = "NADRA-V29"

	DeviceLost    Code = "NADRA-V30"
	DevicePinned  Code = "NADRA-V31"
	DeviceOther   Code = "NADRA-V32"
	VariableLost  Code = "NADRA-V33"
	VariableOther Code = "NADRA-V34"
	VariableCount Code = "NADRA-V35"
	VariableValue Code = "NADRA-V36"
	FunctionOther Code = "NADRA-V37"

	LinkMissing Code = "NADRA-V40"
	LinkKind    Code = "NADRA-V41"
	LinkDown    Code = "NADRA-V42"
	LinkFlags   Code = "NADRA-V43"
	HostSide    Code = "NADRA-V44"
	HostBelow   Code = "NADRA-V45"
	PrefixOther Code = "NADRA-V46"

	DefaultRoute  Code = "NADRA-V50"
	DefaultStatus Code = "NADRA-V51"
	RouteMissing  Code = "NADRA-V52"
	RouteAdded    Code = "NADRA-V53"
	RuleMissing   Code = "NADRA-V54"
	RuleAdded     Code = "NADRA-V55"
	SysctlTuned   Code = "NADRA-V56"
	SysctlOther   Code = "NADRA-V57"

	NADMissing Code = "NADRA-V60"
	NADOther   Code = "NADRA-V61"
)

// Severity ranks differences.
type Severity string

// The severities, the mildest first.
const (
	Expected Severity = "expected" // a consequence of recreating a pod, or of the move
	Warning  Severity = "warning"  // a person should look at it
	Blocker  Severity = "blocker"  // the pod lost something that it had
)

// Severities returns all severities, the worst first.
func Severities() []Severity { return []Severity{Blocker, Warning, Expected} }

// Rule explains a code.
type Rule struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	Title    string   `json:"title"`
	What     string   `json:"what"`
	Why      string   `json:"why"`
	Fix      string   `json:"fix"`
}

// Anchor returns the rule's place in the documentation.
func (c Code) Anchor() string { return "docs/reference/verify-codes.md#" + strings.ToLower(string(c)) }

// Rules returns all rules, sorted by code.
func Rules() []Rule { return slices.Clone(rules) }

// RuleOf finds the rule of a code.
func RuleOf(c Code) (Rule, bool) {
	i, found := slices.BinarySearchFunc(rules, c, func(r Rule, c Code) int { return strings.Compare(string(r.Code), string(c)) })
	if !found {
		return Rule{}, false
	}
	return rules[i], true
}

package snapshot

import (
	"slices"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// Code identifies a kind of difference.
type Code = translate.Code

// The codes. Numbers below 10 are about pods, below 20 about which networks they
// have, below 30 about an interface's addresses, below 40 about devices and
// variables, below 50 about interfaces as nodes observe them, below 60 about routing
// and sysctls, below 70 about NetworkAttachmentDefinitions.
const (
	PodMissing    Code = "NADRA-401"
	PodAdditional Code = "NADRA-402"
	PodRecreated  Code = "NADRA-403"
	NodeOther     Code = "NADRA-404"
	SystemOther   Code = "NADRA-405"
	HostNetwork   Code = "NADRA-406"
	PodEnded      Code = "NADRA-407"
	NotCompared   Code = "NADRA-408"

	NetworkMissing Code = "NADRA-410"
	NetworkAdded   Code = "NADRA-411"
	Renamed        Code = "NADRA-412"
	OrderOther     Code = "NADRA-413"
	DefaultOther   Code = "NADRA-414"
	CheckFailed    Code = "NADRA-415"

	MACLost       Code = "NADRA-420"
	MACOther      Code = "NADRA-421"
	MTUOther      Code = "NADRA-422"
	AddressLost   Code = "NADRA-423"
	AddressOther  Code = "NADRA-424"
	SubnetOther   Code = "NADRA-425"
	SubnetUnknown Code = "NADRA-426"
	AddressFewer  Code = "NADRA-427"
	AddressAdded  Code = "NADRA-428"
	DNSOther      Code = "NADRA-429"

	DeviceLost    Code = "NADRA-430"
	DevicePinned  Code = "NADRA-431"
	DeviceOther   Code = "NADRA-432"
	VariableLost  Code = "NADRA-433"
	VariableOther Code = "NADRA-434"
	VariableCount Code = "NADRA-435"
	VariableValue Code = "NADRA-436"
	FunctionOther Code = "NADRA-437"

	LinkMissing Code = "NADRA-440"
	LinkKind    Code = "NADRA-441"
	LinkDown    Code = "NADRA-442"
	LinkFlags   Code = "NADRA-443"
	HostSide    Code = "NADRA-444"
	HostBelow   Code = "NADRA-445"
	PrefixOther Code = "NADRA-446"

	DefaultRoute  Code = "NADRA-450"
	DefaultStatus Code = "NADRA-451"
	RouteMissing  Code = "NADRA-452"
	RouteAdded    Code = "NADRA-453"
	RuleMissing   Code = "NADRA-454"
	RuleAdded     Code = "NADRA-455"
	SysctlTuned   Code = "NADRA-456"
	SysctlOther   Code = "NADRA-457"

	NADMissing Code = "NADRA-460"
	NADOther   Code = "NADRA-461"
)

// Rules returns all rules, sorted by code.
func Rules() []translate.Rule { return slices.Clone(rules) }

// RuleOf finds the rule of a code.
func RuleOf(c Code) (translate.Rule, bool) { return translate.FindRule(rules, c) }

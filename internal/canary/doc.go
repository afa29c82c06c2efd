// Package canary plans the pods by which `kubectl nadra verify --canary` tries
// networks, and judges what they say. It is pure; package live beside it runs
// them, and package echo is what runs in them.
package canary

// APIVersion is that of all that this package writes. Fields are added within a
// version, never renamed or removed.
const APIVersion = "nadra.dev/v1alpha1"

// The kinds of what it writes.
const (
	PlanKind   = "CanaryPlan"
	ReportKind = "CanaryReport"
	// LookKind and PingsKind are what the tool in a canary prints.
	LookKind  = "CanaryLook"
	PingsKind = "CanaryPings"
)

// Command is the subcommand of nadra-node that runs in a canary.
const Command = "canary"

// Port is where canaries answer UDP, for where ICMP is not permitted.
const Port = 47763

// Labels of canaries. Those of an earlier run are found by the first two, which
// have the values Name and ManagerName; the last one has the run's.
const (
	NameLabel    = "app.kubernetes.io/name"
	ManagerLabel = "app.kubernetes.io/managed-by"
	RunLabel     = "nadra.dev/canary"

	// Name is also what the names of canaries begin with.
	Name = "nadra-canary"
	// ManagerName is who makes and deletes them.
	ManagerName = "kubectl-nadra"
)

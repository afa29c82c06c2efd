// Package canary plans the pods with which `kubectl nadra verify --canary` tests networks,
// and evaluates their results. It is pure; internal/canaryrun runs the pods, and
// internal/canaryecho runs in them.
//
//	doc.go       names and labels
//	plan.go      which canaries test which network
//	pod.go       the pods
//	observed.go  what a canary prints about itself and others
//	evaluate.go  evaluates the results
//	report.go    the report
package canary

// APIVersion is the API version of plans, reports and the output of canaries. Fields are
// added within a version, never renamed or removed.
const APIVersion = "nadra.dev/v1alpha1"

// Kinds of plans, reports, and the output of canaries.
const (
	PlanKind       = "CanaryPlan"
	ReportKind     = "CanaryReport"
	InspectionKind = "CanaryInspection"
	PingsKind      = "CanaryPings"
)

// Command is the subcommand of nadra-node that runs in a canary.
const Command = "canary"

// Port is the UDP port on which canaries answer if ICMP is not permitted.
const Port = 47763

// Labels of canaries. The first two have the values Name and ManagerName, and select the
// canaries of all runs. The last one has the name of the run.
const (
	NameLabel    = "app.kubernetes.io/name"
	ManagerLabel = "app.kubernetes.io/managed-by"
	RunLabel     = "nadra.dev/canary"

	// Name is also the prefix of canaries' names.
	Name = "nadra-canary"
	// ManagerName is the program that creates and deletes canaries.
	ManagerName = "kubectl-nadra"
)

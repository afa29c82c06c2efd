// Package canary tests networks with pods, for `kubectl nadra verify --canary` and upgrades: it plans the pods,
// runs them, and evaluates what they report (package probe).
package canary

// APIVersion is the API version of plans and reports. Fields are
// added within a version, never renamed or removed.
const APIVersion = "nadra.dev/v1alpha1"

// Kinds of plans and reports.
const (
	PlanKind   = "CanaryPlan"
	reportKind = "CanaryReport"
)

// Labels of canaries. The first two have the values Name and ManagerName, and select the
// canaries of all runs. The last one has the name of the run.
const (
	NameLabel    = "app.kubernetes.io/name"
	ManagerLabel = "app.kubernetes.io/managed-by"
	runLabel     = "nadra.dev/canary"

	// Name is also the prefix of canaries' names.
	Name = "nadra-canary"
	// ManagerName is the program that creates and deletes canaries.
	ManagerName = "kubectl-nadra"
)

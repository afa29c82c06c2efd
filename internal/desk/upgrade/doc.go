// Package upgrade moves a cluster from Multus to nadra and back. It decides in which waves nodes and namespaces move,
// which step comes next on a node, and what blocks a plan; and it reads the cluster, carries plans out, and keeps plan
// and progress in the cluster.
package upgrade

// APIVersion is the API version of plans and of their state in the cluster.
// Fields are added within a version, never renamed. One that is removed is ignored, or refused by its name if that
// would change what is done.
const APIVersion = "nadra.dev/v1alpha1"

// PlanKind is the kind of Plan.
const PlanKind = "UpgradePlan"

// Package upgrade decides how a cluster moves from Multus to nadra: in which
// waves of nodes and namespaces, which step comes next on a node, and whether a
// gate is open. It is pure; package live beside it reads the cluster and acts.
package upgrade

// APIVersion is that of plans and of the state that the cluster keeps of them.
// Fields are added within a version, never renamed or removed.
const APIVersion = "nadra.dev/v1alpha1"

// PlanKind is the kind of a plan.
const PlanKind = "UpgradePlan"

package v1alpha1

// OwnerLabel is the label for who serves additional networks: on a node, who attaches them
// there; on a namespace or a pod, who is to attach those of its pods. A pod's label has
// precedence over its namespace's.
const OwnerLabel = "nadra.dev/owner"

// The values of OwnerLabel.
const (
	OwnerNadra  = "nadra"
	OwnerMultus = "multus"
)

// ManagedByLabel with the value Controller marks objects that nadra's controller has
// created, and may change and delete.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	Controller     = "nadra-controller"
)

// UnclaimedLabel is the label of a namespace for its pods that name networks by annotation and
// have no claim: attach, refuse or allow, as nadra-node's --unclaimed, which it overrides.
const UnclaimedLabel = "nadra.dev/unclaimed"

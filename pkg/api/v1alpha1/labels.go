package v1alpha1

// OwnerLabel says who serves additional networks (design D11): on a node, who
// attaches them there; on a namespace or a pod, who is to attach those of its
// pods. A pod's label counts before its namespace's.
const OwnerLabel = "nadra.dev/owner"

// The values of OwnerLabel.
const (
	OwnerNadra  = "nadra"
	OwnerMultus = "multus"
)

// ManagedByLabel with the value Controller marks what nadra's controller has
// made, and may change and delete.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	Controller     = "nadra-controller"
)

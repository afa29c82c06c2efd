package probe

// Record is an attachment that is not detached yet, or a pending DEL, on a node.
type Record struct {
	Node string `json:"node,omitempty"`
	// Pod and Claim are NAMESPACE/NAME.
	Pod   string `json:"pod,omitempty"`
	Claim string `json:"claim,omitempty"`
	// What describes it.
	What string `json:"what"`
	// PendingDEL is true if the pod has ended and a DEL is retried.
	PendingDEL bool `json:"pendingDEL,omitempty"`
	// Cleanup is true if kubectl nadra cleanup frees it.
	Cleanup bool `json:"cleanup,omitempty"`
}

// Remains is what nadra has on a node. The node reports it when nadra is uninstalled.
type Remains struct {
	// Records must be gone before the node's files are removed.
	Records []Record `json:"records"`
	// Paths are the files and directories that exist, or were removed.
	Paths []string `json:"paths"`
	// Removed is true if they were removed.
	Removed bool `json:"removed,omitempty"`
	// Error is the reason, with its code, why the node was not inspected, or removed
	// nothing.
	Error string `json:"error,omitempty"`
}

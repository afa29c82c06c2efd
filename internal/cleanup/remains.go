package cleanup

// Record is something of nadra's that a node still has to bring to its end.
type Record struct {
	Node string `json:"node,omitempty"`
	// Pod and Claim are NAMESPACE/NAME.
	Pod   string `json:"pod,omitempty"`
	Claim string `json:"claim,omitempty"`
	// What it is, in words.
	What string `json:"what"`
	// Cleanup says that kubectl nadra cleanup is for it.
	Cleanup bool `json:"cleanup,omitempty"`
}

// Remains is what a node says of what nadra has there, for who uninstalls it.
type Remains struct {
	// Records are what is still to be brought to its end.
	Records []Record `json:"records"`
	// Paths are those that there are, or that were removed.
	Paths []string `json:"paths"`
	// Removed says that they were removed.
	Removed bool `json:"removed,omitempty"`
	// Error is why the node could not be looked at, or why it keeps what it has.
	Error string `json:"error,omitempty"`
}

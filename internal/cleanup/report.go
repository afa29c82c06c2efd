package cleanup

// APIVersion and ReportKind are those of a Report.
const (
	APIVersion = "nadra.dev/v1alpha1"
	ReportKind = "CleanupReport"
)

// Report is what was found, and what became of it.
type Report struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Orphans    []Orphan `json:"orphans"`
	// Refused are the nodes that were not judged, and why.
	Refused []NodeProblem `json:"refused,omitempty"`
	// Errors are about what could not be looked at.
	Errors []NodeProblem `json:"errors,omitempty"`
	// Nodes is how many were looked at, Kept how many things of sandboxes that no
	// runtime knows are left alone since something else speaks for them.
	Nodes int `json:"nodes"`
	Kept  int `json:"kept"`
}

// NodeProblem is what is wrong with a node.
type NodeProblem struct {
	Node    string `json:"node"`
	Message string `json:"message"`
}

// Failed is how many orphans could not be freed.
func (r Report) Failed() int {
	n := 0
	for _, o := range r.Orphans {
		if o.Error != "" {
			n++
		}
	}
	return n
}

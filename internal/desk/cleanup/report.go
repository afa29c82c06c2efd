package cleanup

import (
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// apiVersion and reportKind identify a Report.
const (
	apiVersion = "nadra.dev/v1alpha1"
	reportKind = "CleanupReport"
)

// Report is the report of a cluster.
type Report struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Orphans    []probe.Orphan `json:"orphans"`
	// Refused are the nodes that were not judged, with the reason of each.
	Refused []NodeProblem `json:"refused,omitempty"`
	// Errors are the errors of reading parts of nodes.
	Errors []NodeProblem `json:"errors,omitempty"`
	// Findings are about the nodes of Refused and Errors.
	Findings []translate.Finding `json:"findings,omitempty"`
	// Nodes is the number of judged nodes. Kept is the sum of their Kept.
	Nodes int `json:"nodes"`
	Kept  int `json:"kept"`
}

// NodeProblem is a problem of a node.
type NodeProblem struct {
	Node    string `json:"node"`
	Message string `json:"message"`
}

// found adds a finding about a node, also to a list of problems.
func (r *Report) found(to *[]NodeProblem, code translate.Code, node, message string) {
	*to = append(*to, NodeProblem{node, message})
	r.Findings = append(r.Findings, translate.NewFinding(rules, code, translate.ObjectRef{Kind: "Node", Name: node}, message))
}

// Failed counts the orphans that could not be freed.
func (r Report) Failed() int {
	n := 0
	for _, o := range r.Orphans {
		if o.Error != "" {
			n++
		}
	}
	return n
}

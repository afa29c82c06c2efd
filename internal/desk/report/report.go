// Package report builds the report of `kubectl nadra scan`, and writes it and the results of
// other commands in every format. It performs no I/O except on the given writer.
package report

import "github.com/nadra-dev/nadra/pkg/translate"

// APIVersion and Kind are those of the JSON and YAML forms. Within a version, fields are
// added, and never renamed or removed.
const (
	APIVersion = "nadra.dev/v1alpha1"
	Kind       = "ScanReport"
)

// Report is the report of a scan.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Source names the input for people: files, or a cluster's context.
	Source     string      `json:"source"`
	Summary    Summary     `json:"summary"`
	Namespaces []Namespace `json:"namespaces"`
	Workloads  []Workload  `json:"workloads"`
	Networks   []Network   `json:"networks"`
	// Unrendered has what stands for manifests that are not in the input, whether it mentions networks
	// or not. What does is in Workloads, too.
	Unrendered []translate.UnrenderedUnit `json:"unrendered,omitempty"`
	Findings   []translate.Finding        `json:"findings"`
}

// Summary has the totals. A report without findings has them, too.
type Summary struct {
	Files int `json:"files"`
	// Kinds counts the objects by kind.
	Kinds map[string]int `json:"kinds"`
	// Objects counts all of them.
	Objects   int      `json:"objects"`
	Workloads Verdicts `json:"workloads"`
	Networks  Verdicts `json:"networks"`
	// Pods counts the pods of the workloads.
	Pods     int              `json:"pods"`
	Findings translate.Counts `json:"findings"`
	// Known counts the findings that are left out, because the baseline has them.
	Known int `json:"known"`
}

// Verdicts counts by verdict.
type Verdicts struct {
	Ready            int `json:"ready"`
	ReadyNotes       int `json:"readyWithNotes"`
	Stays            int `json:"stays"`
	NotJudged        int `json:"notJudged,omitempty"`
	NothingToConvert int `json:"nothingToConvert,omitempty"`
}

// Total returns the sum.
func (v Verdicts) Total() int {
	return v.Ready + v.ReadyNotes + v.Stays + v.NotJudged + v.NothingToConvert
}

// Namespace has the workloads of one namespace.
type Namespace struct {
	Name      string   `json:"name"`
	Workloads Verdicts `json:"workloads"`
}

// Workload is a workload that uses additional networks. Objects that another workload of
// the input owns, and that ask for the same networks, are counted as its pods.
type Workload struct {
	translate.Verdict
	// Pods counts its pods, as far as the input has them.
	Pods int `json:"pods,omitempty"`
}

// Network is a network with its users.
type Network struct {
	translate.NetworkVerdict
	// Users are the workloads that name it, sorted.
	Users []translate.ObjectRef `json:"users"`
}

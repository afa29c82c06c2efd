// Package report is what `kubectl nadra scan` says, in every form that it says
// it in. Build decides; the writers only write. It performs no I/O but on the
// writer that it is given.
package report

import "github.com/nadra-dev/nadra/pkg/translate"

// APIVersion and Kind are those of the JSON and YAML forms. Fields are added
// within a version, never renamed or removed.
const (
	APIVersion = "nadra.dev/v1alpha1"
	Kind       = "ScanReport"
)

// Report is one scan.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Source is what was looked at, for people: files, or a cluster's context.
	Source     string      `json:"source"`
	Summary    Summary     `json:"summary"`
	Namespaces []Namespace `json:"namespaces"`
	Workloads  []Workload  `json:"workloads"`
	Networks   []Network   `json:"networks"`
	Findings   []Finding   `json:"findings"`
}

// Summary are the totals; they are there also when nothing was found.
type Summary struct {
	Files int `json:"files"`
	// Kinds counts the objects by kind.
	Kinds map[string]int `json:"kinds"`
	// Objects is the number of all of them.
	Objects   int      `json:"objects"`
	Workloads Verdicts `json:"workloads"`
	Networks  Verdicts `json:"networks"`
	// Pods is the number of those that workloads have made.
	Pods     int        `json:"pods"`
	Findings Severities `json:"findings"`
	// Known is how many findings the baseline has, and that are left out.
	Known int `json:"known"`
}

// Verdicts are counts by verdict.
type Verdicts struct {
	Ready      int `json:"ready"`
	ReadyNotes int `json:"readyWithNotes"`
	Stays      int `json:"stays"`
}

// Total is the sum.
func (v Verdicts) Total() int { return v.Ready + v.ReadyNotes + v.Stays }

// Severities are counts by severity.
type Severities struct {
	Info    int `json:"info"`
	Warning int `json:"warning"`
	Blocker int `json:"blocker"`
}

// Total is the sum.
func (s Severities) Total() int { return s.Info + s.Warning + s.Blocker }

// Namespace has the workloads of one namespace.
type Namespace struct {
	Name      string   `json:"name"`
	Workloads Verdicts `json:"workloads"`
}

// Workload is one that has to do with networks. Objects that another workload
// of the input made, and that ask for the same networks, are not listed but
// counted as its pods.
type Workload struct {
	translate.Verdict
	// Pods is how many pods it has made, as far as the input has them.
	Pods int `json:"pods,omitempty"`
}

// Network is one, and who uses it.
type Network struct {
	translate.NetworkVerdict
	// Users are the workloads that name it, sorted.
	Users []translate.ObjectRef `json:"users"`
}

// Finding is one, with what its rule says about it.
type Finding struct {
	translate.Finding
	Title  string `json:"title"`
	What   string `json:"what"`
	Why    string `json:"why"`
	Fix    string `json:"fix"`
	Anchor string `json:"anchor"`
}

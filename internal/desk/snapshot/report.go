package snapshot

import (
	"cmp"
	"slices"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// Report is the result of a comparison. Fields are added within a version, never renamed
// or removed.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Was and Now are the compared snapshots.
	Was     Side    `json:"was"`
	Now     Side    `json:"now"`
	Summary Summary `json:"summary"`
	// Workloads are the workloads of the compared pods, also those without differences;
	// sorted.
	Workloads []WorkloadResult `json:"workloads"`
	// Differences are sorted by pod.
	Differences []Difference `json:"differences"`
}

// WorkloadResult counts the differences of a workload's pods.
type WorkloadResult struct {
	Namespace string `json:"namespace"`
	Workload
	// Pods is the number of its pods in the first snapshot.
	Pods     int              `json:"pods"`
	Findings translate.Counts `json:"findings"`
}

// Side is one of the two snapshots.
type Side struct {
	Source string `json:"source,omitempty"`
	Taken  string `json:"taken,omitempty"`
	Pods   int    `json:"pods"`
	// Observed is the number of pods that a node observed.
	Observed int `json:"observed"`
}

// Summary has the totals of a report.
type Summary struct {
	// Pods and Interfaces are the numbers of compared pods and interfaces.
	Pods       int `json:"pods"`
	Interfaces int `json:"interfaces"`
	// Missing and Added are the numbers of pods without counterpart.
	Missing  int              `json:"missing"`
	Added    int              `json:"added"`
	Findings translate.Counts `json:"findings"`
	// Ignored is the number of differences that were left out.
	Ignored int `json:"ignored"`
}

// Difference is a difference between two snapshots: of a pod, which is named as in the first one, of a
// NetworkAttachmentDefinition, or of neither.
type Difference struct {
	translate.Finding
	Workload *Workload `json:"workload,omitempty"`
	Node     string    `json:"node,omitempty"`
	// NowPod and NowNode are the successor's, if they are different.
	NowPod    string `json:"nowPod,omitempty"`
	NowNode   string `json:"nowNode,omitempty"`
	Interface string `json:"interface,omitempty"`
	Network   string `json:"network,omitempty"`
	Was       string `json:"was,omitempty"`
	Now       string `json:"now,omitempty"`
}

// report sorts and counts the differences.
func (c *comparison) report() *Report {
	r := &Report{
		APIVersion: APIVersion, Kind: reportKind, Was: sideOf(c.was.Snapshot), Now: sideOf(c.now.Snapshot), Summary: c.summary,
		Workloads: []WorkloadResult{}, Differences: []Difference{},
	}
	for _, d := range c.found {
		if slices.Contains(c.options.Ignore, d.Code) {
			r.Summary.Ignored++
			continue
		}
		r.Summary.Findings.Add(d.Severity)
		if w := c.results[d.identity()]; w != nil {
			w.Findings.Add(d.Severity)
		}
		r.Differences = append(r.Differences, d)
	}
	for _, w := range c.results {
		r.Workloads = append(r.Workloads, *w)
	}
	slices.SortFunc(r.Workloads, func(a, b WorkloadResult) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	slices.SortStableFunc(r.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Object.Namespace, b.Object.Namespace), cmp.Compare(a.Object.Name, b.Object.Name), cmp.Compare(a.Network+a.Interface, b.Network+b.Interface), cmp.Compare(a.Code, b.Code))
	})
	return r
}

// identity returns the identity of the difference's pod.
func (d *Difference) identity() identity {
	return (&Pod{Namespace: d.Object.Namespace, Name: d.Object.Name, Workload: d.Workload}).identity()
}

func sideOf(s *Snapshot) Side {
	return Side{Source: s.Source, Taken: s.Taken, Pods: len(s.Pods), Observed: s.Totals().Observed}
}

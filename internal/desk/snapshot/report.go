package snapshot

import (
	"cmp"
	"slices"
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
	Pods     int `json:"pods"`
	Blocker  int `json:"blocker"`
	Warning  int `json:"warning"`
	Expected int `json:"expected"`
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
	Missing  int `json:"missing"`
	Added    int `json:"added"`
	Blocker  int `json:"blocker"`
	Warning  int `json:"warning"`
	Expected int `json:"expected"`
	// Ignored is the number of differences that were left out.
	Ignored int `json:"ignored"`
}

// Total returns the number of differences.
func (s Summary) Total() int { return s.Blocker + s.Warning + s.Expected }

// Difference is a difference between two snapshots.
type Difference struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	Title    string   `json:"title"`
	// Namespace, Workload, Pod and Node are the first snapshot's. They are empty for a
	// difference of a NetworkAttachmentDefinition, which has a Network only.
	Namespace string    `json:"namespace,omitempty"`
	Workload  *Workload `json:"workload,omitempty"`
	Pod       string    `json:"pod,omitempty"`
	Node      string    `json:"node,omitempty"`
	// NowPod and NowNode are the successor's, if they are different.
	NowPod    string `json:"nowPod,omitempty"`
	NowNode   string `json:"nowNode,omitempty"`
	Interface string `json:"interface,omitempty"`
	Network   string `json:"network,omitempty"`
	Was       string `json:"was,omitempty"`
	Now       string `json:"now,omitempty"`
	Message   string `json:"message"`
}

// report sorts and counts the differences.
func (c *comparison) report() *Report {
	r := &Report{
		APIVersion: APIVersion, Kind: ReportKind, Was: sideOf(c.was), Now: sideOf(c.now), Summary: c.summary,
		Workloads: []WorkloadResult{}, Differences: []Difference{},
	}
	for _, d := range c.found {
		if slices.Contains(c.options.Ignore, d.Code) {
			r.Summary.Ignored++
			continue
		}
		count(d.Severity, &r.Summary.Blocker, &r.Summary.Warning, &r.Summary.Expected)
		if w := c.results[d.identity()]; w != nil {
			count(d.Severity, &w.Blocker, &w.Warning, &w.Expected)
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
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Network+a.Interface, b.Network+b.Interface), cmp.Compare(a.Code, b.Code))
	})
	return r
}

func count(severity Severity, blocker, warning, expected *int) {
	switch severity {
	case Blocker:
		*blocker++
	case Warning:
		*warning++
	case Expected:
		*expected++
	}
}

// identity returns the identity of the difference's pod.
func (d *Difference) identity() identity {
	return (&Pod{Namespace: d.Namespace, Name: d.Pod, Workload: d.Workload}).identity()
}

func sideOf(s *Snapshot) Side {
	return Side{Source: s.Source, Taken: s.Taken, Pods: len(s.Pods), Observed: s.Totals().Observed}
}

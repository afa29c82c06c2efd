package doctor

import (
	"slices"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// Report is doctor's output. Within a version, fields are added, and never renamed or
// removed.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Source names the input for people: a cluster's context, or a file.
	Source  string  `json:"source,omitempty"`
	Summary Summary `json:"summary"`
	Checks  []Check `json:"checks"`
}

// Summary has the totals.
type Summary struct {
	Nodes int `json:"nodes"`
	// Probed counts the nodes on which a pod has run the probe.
	Probed int `json:"probed"`
	OK     int `json:"ok"`
	// Unknown counts the checks that lacked something.
	Unknown  int              `json:"unknown"`
	Findings translate.Counts `json:"findings"`
}

// NewReport runs all checks and counts their results.
func NewReport(c Capabilities) *Report {
	r := &Report{APIVersion: APIVersion, Kind: reportKind, Source: c.Source, Checks: Diagnose(c)}
	r.Summary.Nodes, r.Summary.Probed = len(c.Nodes), len(c.probed())
	for _, check := range r.Checks {
		switch check.Severity {
		case OK:
			r.Summary.OK++
		case Unknown:
			r.Summary.Unknown++
		default:
			r.Summary.Findings.Add(check.Severity)
		}
	}
	return r
}

// Of returns the capabilities with only the named nodes. Without names, it keeps all.
func (c Capabilities) Of(nodes []string) Capabilities {
	if len(nodes) == 0 {
		return c
	}
	c.SomeNodes = true
	c.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n Node) bool { return !slices.Contains(nodes, n.Name) })
	return c
}

package support

import (
	"cmp"
	"slices"
	"strings"
)

// Run is the last recorded run of a lane. The program build/record writes it at the end of
// the lane.
type Run struct {
	Lane string `json:"lane"`
	// With lists the variables that chose the components: NADRA_KUBERNETES=1.36.
	With string `json:"with,omitempty"`
	// Date is the day of its end.
	Date   string `json:"date"`
	Commit string `json:"commit"`
	// Passed and Tests count test functions.
	Passed   int `json:"passed"`
	Tests    int `json:"tests"`
	Failures int `json:"failures"`
	// Ran lists what its cluster reported: "containerd 2.4.2", "amd64".
	Ran []string `json:"ran"`
}

// Green reports whether the run's tests have passed.
func (r Run) Green() bool { return r.Failures == 0 && r.Passed > 0 }

// VersionsOf returns the versions in the run that a row has: "" for a component without a
// version, and nothing if the row does not name the lane.
func (r Run) VersionsOf(row Row) []string {
	var out []string
	for _, ran := range r.Ran {
		text, found := strings.CutPrefix(ran, string(row.Component))
		text = strings.TrimSpace(text)
		if found && slices.Contains(row.Lanes, r.Lane) && (text == "") == (row.versions() == "") && row.Has(text) {
			out = append(out, text)
		}
	}
	return out
}

// Record returns the runs, sorted, with one run in place of the earlier one of its lane with
// the same components.
func Record(runs []Run, run Run) []Run {
	out := slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return r.Lane == run.Lane && r.With == run.With })
	out = append(out, run)
	slices.SortFunc(out, func(a, b Run) int { return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.With, b.With)) })
	return out
}

package canary

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/rulepage"
)

// TestRules compares the rules with their part of the page.
func TestRules(t *testing.T) { rulepage.Check(t, "canary", Rules()) }

// TestFindings checks that a report has the findings of canaries and pings, and that every code is tested.
func TestFindings(t *testing.T) {
	ok := func([]Result) {}
	tested := map[translate.Code]bool{}
	for name, test := range map[string]struct {
		config string
		change func([]Result)
		left   []string
		want   []string // code, severity, object and node
	}{
		"no problem":                {macvlan, ok, nil, nil},
		"it is not ready":           {macvlan, func(r []Result) { r[0].Err = errors.New("no node") }, nil, []string{"NADRA-470 blocker NetworkAttachmentDefinition a/lan: n1"}},
		"it was not inspected":      {macvlan, func(r []Result) { r[0].Inspection = nil }, nil, []string{"NADRA-470 blocker NetworkAttachmentDefinition a/lan: n1"}},
		"it lacks the network":      {macvlan, func(r []Result) { r[1].Status = nil }, nil, []string{"NADRA-471 blocker NetworkAttachmentDefinition a/lan: n2"}},
		"two problems, one finding": {macvlan, func(r []Result) { r[0].Inspection.Links[1].Up, r[0].Inspection.Links[1].Addresses = false, nil }, nil, []string{"NADRA-472 blocker NetworkAttachmentDefinition a/lan: n1"}},
		"no answer":                 {macvlan, func(r []Result) { r[0].Pings.Pings[0].Received = 0 }, nil, []string{"NADRA-473 blocker NetworkAttachmentDefinition a/lan: n1 to n2, 10.0.0.3"}},
		"few answers":               {macvlan, func(r []Result) { r[0].Pings.Pings[0].Received = 2 }, nil, []string{"NADRA-474 warning NetworkAttachmentDefinition a/lan: n1 to n2, 10.0.0.3"}},
		"no answer was expected": {
			`{"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.0.0.0/24"}}`, func(r []Result) { r[0].Pings.Pings[0].Received = 0 }, nil,
			[]string{"NADRA-475 info NetworkAttachmentDefinition a/lan: n1 to n2, 10.0.0.3"},
		},
		"it is left behind": {macvlan, ok, []string{"a/x"}, []string{"NADRA-477 warning Pod a/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := planOf(t, test.config)
			results := two(n)
			test.change(results)
			r := NewReport("", []NetworkReport{n.evaluate(results)}, test.left)
			check(t, r, test.want, tested)
		})
	}
	check(t, NewReport("", []NetworkReport{{Network: "a/b", Skipped: "no node offers it"}}, nil), []string{"NADRA-476 warning NetworkAttachmentDefinition a/b"}, tested)
	for _, r := range rules {
		if !tested[r.Code] {
			t.Errorf("%s has no test", r.Code)
		}
	}
}

// check compares the findings of a report, and its totals, with those that are wanted.
func check(t *testing.T, r *Report, want []string, tested map[translate.Code]bool) {
	t.Helper()
	if len(r.Findings) != len(want) || r.Summary.Counts != translate.Count(r.Findings) {
		t.Fatalf("findings %+v, counts %+v, want %q", r.Findings, r.Summary.Counts, want)
	}
	for i, f := range r.Findings {
		tested[f.Code] = true
		if got := fmt.Sprintf("%s %s %s", f.Code, f.Severity, f.Statement()); !strings.HasPrefix(got, want[i]) || f.Fix == "" {
			t.Errorf("the finding is %q, want %q", got, want[i])
		}
	}
}

package report

import (
	"fmt"
	"io"
	"time"

	"github.com/nadra-dev/nadra/internal/desk/upgrade"
	"github.com/nadra-dev/nadra/internal/words"
)

// UpgradeStatus is the progress of an upgrade.
type UpgradeStatus struct {
	*upgrade.State
	// Lines has the nodes, in order.
	Lines []upgrade.Line `json:"lines"`
	// Adopted are the pods with networks that Multus attached; nil if they are unknown.
	Adopted *upgrade.Adopted `json:"adopted,omitempty"`

	now    time.Time
	beside bool
}

// NewUpgradeStatus returns the status of an upgrade at a time. adopted is nil if it is unknown.
func NewUpgradeStatus(plan *upgrade.Plan, state *upgrade.State, adopted *upgrade.Adopted, now time.Time) UpgradeStatus {
	return UpgradeStatus{State: state, Lines: state.Lines(plan), Adopted: adopted, now: now, beside: plan.BesideMultus}
}

// writeUpgradeTable writes a row for each node or, beside Multus, for each namespace, and the totals.
func writeUpgradeTable(s *sheet, u UpgradeStatus) {
	done, what := 0, "NODE"
	if u.beside {
		what = "NAMESPACE"
	}
	table(s, "WAVE\t"+what+"\tDIRECTION\tSTEP\tDONE", u.Lines, func(l upgrade.Line) []string {
		step := string(l.Step)
		if l.Done == l.Of {
			step = "done"
			if l.Direction == upgrade.ToNadra {
				done++
			}
		}
		return []string{dash(l.Wave), l.Node + l.Namespace, string(l.Direction), dash(step), fmt.Sprintf("%d/%d", l.Done, l.Of)}
	})
	phase := string(u.Phase)
	if u.Target != "" {
		phase += " " + u.Target
	}
	if u.Reason != "" {
		phase += ": " + u.Reason
	}
	s.gap()
	if u.beside {
		s.printf("nadra serves %d of %s beside Multus.", done, words.Count(len(u.Lines), "namespace"))
	} else {
		s.printf("nadra serves %d of %s, and %s.", done, words.Count(len(u.Lines), "node"), words.Count(len(u.Namespaces), "namespace"))
	}
	if u.Adopted != nil {
		s.println(u.Adopted.Text(u.now))
	}
	s.println("The upgrade is " + phase + ".")
}

// writeUpgradePage writes a plan as Markdown.
func writeUpgradePage(w io.Writer, p *upgrade.Plan) error {
	_, err := w.Write(p.Markdown())
	return err
}

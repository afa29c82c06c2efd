package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/nadra-dev/nadra/internal/desk/doctor"
)

// foldedCheck is a check with the same result on several nodes.
type foldedCheck struct {
	doctor.Check
	objects []string
}

// foldChecks joins checks with equal results, in the order of the first of each, so that a
// hundred equal nodes are one line.
func foldChecks(checks []doctor.Check) []foldedCheck {
	var out []foldedCheck
	at := map[doctor.Check]int{}
	for _, c := range checks {
		key := c
		key.Object = ""
		i, seen := at[key]
		if !seen {
			i = len(out)
			at[key] = i
			out = append(out, foldedCheck{Check: c})
		}
		if c.Object != "" {
			out[i].objects = append(out[i].objects, c.Object)
		}
	}
	return out
}

// writeDoctorTable writes a line for each check, then the remedies, the worst check first,
// and the totals.
func writeDoctorTable(w io.Writer, r *doctor.Report) error {
	s := sheet{w: w}
	all := foldChecks(r.Checks)
	s.table("AREA\tCHECK\tSTATUS\tNODES\tOBSERVED", len(all), func(i int) []string {
		return []string{all[i].Area, all[i].ID, string(all[i].Status), some(all[i].objects), Visible(all[i].What)}
	})
	for _, status := range []doctor.Status{doctor.Blocker, doctor.Warning, doctor.Note} {
		for _, c := range all {
			if c.Status == status && c.Do != "" {
				s.advice(c)
			}
		}
	}
	s.unknown(all)
	s.gap()
	s.println(doctorInput(r))
	s.println(doctorTotals(r.Summary) + ".")
	return s.err
}

// advice writes the remedy of a check.
func (s *sheet) advice(c foldedCheck) {
	s.gap()
	s.println(c.ID + ": " + string(c.Status) + onNodes(c.objects))
	s.println("  Why:        " + Visible(c.Why))
	s.println("  What to do: " + Visible(c.Do))
}

// onNodes names nodes for a sentence.
func onNodes(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " on " + some(names)
}

// unknown writes what unknown checks need. One missing right or flag can affect many
// checks.
func (s *sheet) unknown(all []foldedCheck) {
	type cause struct{ what, do, nodes string }
	var causes []cause
	checks := map[cause][]string{}
	for _, c := range all {
		if c.Status != doctor.Unknown {
			continue
		}
		key := cause{c.What, c.Do, onNodes(c.objects)}
		if checks[key] == nil {
			causes = append(causes, key)
		}
		checks[key] = append(checks[key], c.ID)
	}
	for _, key := range causes {
		s.gap()
		s.println(strings.Join(checks[key], ", ") + ": unknown" + key.nodes)
		s.println("  Why:        " + Visible(key.what))
		s.println("  It takes:   " + dash(Visible(key.do)))
	}
}

// doctorInput describes the input.
func doctorInput(r *doctor.Report) string {
	out := "Looked at " + count(r.Summary.Nodes, "node")
	if r.Source != "" {
		out += " of " + Visible(r.Source)
	}
	if r.Summary.Probed == 0 {
		return out + ", from outside. Look from inside with --probe."
	}
	return fmt.Sprintf("%s, %d of them from inside.", out, r.Summary.Probed)
}

// doctorTotals returns the totals in words.
func doctorTotals(s doctor.Summary) string {
	total := s.OK + s.Note + s.Unknown + s.Warning + s.Blocker
	return fmt.Sprintf("%s: %s, %s, %d unknown, %s, %d ok",
		count(total, "check"), count(s.Blocker, "blocker"), count(s.Warning, "warning"), s.Unknown, count(s.Note, "note"), s.OK)
}

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/desk/doctor"
	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// alike is the first of equal items, with the names of all.
type alike[T any] struct {
	first T
	names []string
}

// foldBy joins items with equal keys, in the order of the first of each, so that a hundred equal
// nodes are one line. An empty name is left out.
func foldBy[T any, K comparable](all []T, keyAndName func(T) (K, string)) []alike[T] {
	var out []alike[T]
	at := map[K]int{}
	for _, one := range all {
		key, name := keyAndName(one)
		i, seen := at[key]
		if !seen {
			i = len(out)
			at[key] = i
			out = append(out, alike[T]{first: one})
		}
		if name != "" {
			out[i].names = append(out[i].names, name)
		}
	}
	return out
}

// checkAndObject returns a check without its object, and the object's name.
func checkAndObject(c doctor.Check) (doctor.Check, string) {
	name := c.Object.String()
	if c.Object.Kind == "Node" {
		name = c.Object.Name
	}
	c.Object = translate.ObjectRef{}
	return c, name
}

// writeDoctorTable writes a line for each check, then the remedies, the worst check first,
// and the totals.
func writeDoctorTable(s *sheet, r *doctor.Report) {
	all := foldBy(r.Checks, checkAndObject)
	table(s, "CODE\tCHECK\tSEVERITY\tNODES\tOBSERVED", all, func(c alike[doctor.Check]) []string {
		return []string{string(c.first.Code), c.first.Title, string(c.first.Severity), some(c.names), Visible(c.first.Message)}
	})
	for _, severity := range worstToMildest {
		for _, c := range all {
			if c.first.Severity == severity && c.first.Fix != "" {
				s.advice(c)
			}
		}
	}
	s.unknown(all)
	s.gap()
	s.println(doctorInput(r))
	s.println(doctorTotals(r.Summary) + ".")
}

// advice writes the remedy of a check.
func (s *sheet) advice(c alike[doctor.Check]) {
	s.gap()
	s.println(c.first.Title + ": " + string(c.first.Severity) + onNodes(c.names))
	s.println("  Why:        " + Visible(c.first.Why))
	s.println("  What to do: " + Visible(c.first.Fix))
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
func (s *sheet) unknown(all []alike[doctor.Check]) {
	type cause struct{ what, do, nodes string }
	all = slices.DeleteFunc(all, func(c alike[doctor.Check]) bool { return c.first.Severity != doctor.Unknown })
	for _, c := range foldBy(all, func(c alike[doctor.Check]) (cause, string) {
		return cause{c.first.Message, c.first.Fix, onNodes(c.names)}, c.first.Title
	}) {
		s.gap()
		s.println(strings.Join(c.names, ", ") + ": unknown" + onNodes(c.first.names))
		s.println("  Why:        " + Visible(c.first.first.Message))
		s.println("  It takes:   " + dash(Visible(c.first.first.Fix)))
	}
}

// doctorInput describes the input.
func doctorInput(r *doctor.Report) string {
	out := "Looked at " + words.Count(r.Summary.Nodes, "node") + ofSource(r.Source)
	if r.Summary.Probed == 0 {
		return out + ", from outside. Look from inside with --probe."
	}
	return fmt.Sprintf("%s, %d of them from inside.", out, r.Summary.Probed)
}

// doctorTotals returns the totals in words.
func doctorTotals(s doctor.Summary) string {
	return fmt.Sprintf("%s: %s, %d unknown, %d ok", words.Count(s.OK+s.Unknown+s.Findings.Total(), "check"), severityWords(s.Findings), s.Unknown, s.OK)
}

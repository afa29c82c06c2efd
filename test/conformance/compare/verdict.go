package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Verdicts judges the cases of one run against the page.
type Verdicts struct {
	Rows map[string]Row

	Cases, Equal, Listed, Failures int

	seen    map[string]bool // numbers that differed
	covered map[string]bool // numbers that a case is about
}

// Verdict is the verdict on one case.
type Verdict struct {
	// Numbers has the rows of the page that the differences belong to, sorted.
	Numbers []string
	// Unlisted has the differences that the page does not admit.
	Unlisted []Difference

	asked string
}

// Subject has the parts of a case that Judge needs.
type Subject struct {
	// About has the numbers of the behaviours that the case shows.
	About []string
	// Differs is the number of a difference that only the case itself can identify.
	Differs string
	// Asked is the pod's annotation.
	Asked string
}

// Judge adds one case and returns its verdict.
func (v *Verdicts) Judge(of Subject, differences []Difference) Verdict {
	if v.seen == nil {
		v.seen, v.covered = map[string]bool{}, map[string]bool{}
	}
	for _, number := range of.About {
		v.covered[number] = true
	}
	numbers := map[string]bool{}
	verdict := Verdict{asked: of.Asked}
	for _, d := range differences {
		number := cmp.Or(Number(d, of.Asked), of.Differs)
		if row := v.Rows[number]; number == "" || !row.differs() || !row.Shown {
			verdict.Unlisted = append(verdict.Unlisted, d)
			continue
		}
		numbers[number] = true
		v.seen[number] = true
	}
	verdict.Numbers = slices.Sorted(maps.Keys(numbers))
	v.Cases++
	switch {
	case len(verdict.Unlisted) > 0:
		v.Failures++
	case len(numbers) > 0:
		v.Listed++
	default:
		v.Equal++
	}
	return verdict
}

// Fail adds a case that could not be compared.
func (v *Verdicts) Fail() { v.Cases++; v.Failures++ }

// Stale returns the rows that claim to be shown by this suite and are not: a difference
// that no case has any more, or a behaviour that no case shows. Each counts as a failure.
func (v *Verdicts) Stale() []string {
	var out []string
	for _, number := range slices.Sorted(maps.Keys(v.Rows)) {
		row := v.Rows[number]
		switch {
		case !row.Shown:
		case row.differs() && !v.seen[number]:
			out = append(out, fmt.Sprintf("row %s says %q, but no case shows that difference", number, row.Verdict))
		case !row.differs() && !v.covered[number]:
			out = append(out, fmt.Sprintf("row %s says %q, but no case shows it", number, row.Verdict))
		}
	}
	v.Failures += len(out)
	return out
}

// Summary returns the last line of a run.
func (v *Verdicts) Summary() string {
	return fmt.Sprintf("conformance: cases=%d equal=%d listed=%d failures=%d", v.Cases, v.Equal, v.Listed, v.Failures)
}

// String returns the verdict in a few words, and two lines for each unlisted difference.
func (v Verdict) String() string {
	var out strings.Builder
	switch {
	case len(v.Unlisted) > 0:
		out.WriteString("failed")
	case len(v.Numbers) == 0:
		return "equal"
	default:
		out.WriteString("listed")
	}
	if len(v.Numbers) > 0 {
		fmt.Fprintf(&out, " (%s)", strings.Join(v.Numbers, ", "))
	}
	for _, d := range v.Unlisted {
		fmt.Fprintf(&out, "\n  %s\n    multus: %s\n    nadra:  %s", d.Path, short(d.Multus), short(d.Nadra))
		if number := Number(d, v.asked); number != "" {
			fmt.Fprintf(&out, "\n    (%s, which docs/reference/compatibility.md does not list)", number)
		}
	}
	return out.String()
}

// short shortens a long value to its two ends, which tell most.
func short(s string) string {
	const limit = 600
	if len(s) <= limit {
		return s
	}
	return s[:limit*2/3] + " … " + s[len(s)-limit/3:]
}

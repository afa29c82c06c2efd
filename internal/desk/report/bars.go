package report

import "fmt"

// segment is a part of a stacked bar. Widths are attributes of SVG, because the page's
// policy allows no styles of single elements.
type segment struct{ X, Width, Class string }

// segments returns the parts of a bar. The number of is the whole width.
func segments(v Verdicts, of int) []segment {
	var out []segment
	at := 0
	for _, part := range []struct {
		n     int
		class string
	}{{v.Ready, "ready"}, {v.ReadyNotes, "notes"}, {v.Stays, "stays"}, {v.NotJudged, "unjudged"}, {v.NothingToConvert, "nothing"}} {
		if part.n > 0 {
			out = append(out, segment{percent(at, of), percent(part.n, of), part.class})
			at += part.n
		}
	}
	return out
}

// percent returns n/of for an attribute.
func percent(n, of int) string {
	if of == 0 {
		return "0%"
	}
	return fmt.Sprintf("%.3f%%", 100*float64(n)/float64(of))
}

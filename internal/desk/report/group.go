package report

import (
	"cmp"
	"slices"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// group has the findings of one code.
type group struct {
	translate.Finding // the first one, for what all have in common
	findings          []translate.Finding
}

// groups returns the findings by code, the worst first.
func groups(findings []translate.Finding) []group {
	places := map[translate.Code]int{}
	var out []group
	for _, f := range findings {
		i, found := places[f.Code]
		if !found {
			i = len(out)
			places[f.Code] = i
			out = append(out, group{Finding: f})
		}
		out[i].findings = append(out[i].findings, f)
	}
	slices.SortStableFunc(out, func(a, b group) int {
		return cmp.Or(cmp.Compare(rank(a.Severity), rank(b.Severity)), cmp.Compare(a.Code, b.Code))
	})
	return out
}

// byObject has the findings by their object.
type byObject struct {
	workloads, networks [][]translate.Finding // in the report's order
	others              []objectFindings
}

// objectFindings has the findings of an object.
type objectFindings struct {
	object   translate.ObjectRef
	findings []translate.Finding
}

// codes returns the codes of the findings.
func (o objectFindings) codes() []translate.Code {
	var out []translate.Code
	for _, f := range o.findings {
		out = append(out, f.Code)
	}
	return out
}

// findingsByObject sorts the report's findings by their object.
func findingsByObject(r *Report) byObject {
	s := byObject{workloads: make([][]translate.Finding, len(r.Workloads)), networks: make([][]translate.Finding, len(r.Networks))}
	slots := map[translate.ObjectRef][]slot{}
	for i, w := range r.Workloads {
		slots[w.Object] = append(slots[w.Object], slot{w.Position, &s.workloads[i]})
	}
	for i, n := range r.Networks {
		slots[n.Object] = append(slots[n.Object], slot{n.Position, &s.networks[i]})
	}
	others := map[translate.ObjectRef]int{}
	for _, f := range r.Findings {
		if at := nearest(slots[f.Object], f.Position); at != nil {
			*at = append(*at, f)
			continue
		}
		i, found := others[f.Object]
		if !found {
			i = len(s.others)
			others[f.Object] = i
			s.others = append(s.others, objectFindings{object: f.Object})
		}
		s.others[i].findings = append(s.others[i].findings, f)
	}
	slices.SortStableFunc(s.others, func(a, b objectFindings) int { return compareRefs(a.object, b.object) })
	return s
}

// slot collects the findings of a listed object.
type slot struct {
	begins   translate.Position
	findings *[]translate.Finding
}

// nearest returns the findings of the object that contains a position. Several objects of
// a file may have one name.
func nearest(slots []slot, at translate.Position) *[]translate.Finding {
	var best *slot
	for i, h := range slots {
		if h.begins.File != at.File || h.begins.Line > at.Line {
			continue
		}
		if best == nil || h.begins.Line >= best.begins.Line {
			best = &slots[i]
		}
	}
	switch {
	case best != nil:
		return best.findings
	case len(slots) > 0:
		return slots[0].findings
	}
	return nil
}

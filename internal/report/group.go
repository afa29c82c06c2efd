package report

import (
	"cmp"
	"slices"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// group has the findings of one code.
type group struct {
	Finding  // the first, for what all have in common
	findings []Finding
}

// groups are the findings by code, the worst first.
func groups(findings []Finding) []group {
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

// said has the findings by what they are about.
type said struct {
	workloads, networks [][]Finding // as the report's
	others              []about
}

// about has the findings of an object that is neither workload nor network.
type about struct {
	object   translate.ObjectRef
	findings []Finding
}

func (a about) codes() []translate.Code {
	var out []translate.Code
	for _, f := range a.findings {
		out = append(out, f.Code)
	}
	return out
}

// saidOf sorts the findings to their objects.
func saidOf(r *Report) said {
	s := said{workloads: make([][]Finding, len(r.Workloads)), networks: make([][]Finding, len(r.Networks))}
	homes := map[translate.ObjectRef][]home{}
	for i, w := range r.Workloads {
		homes[w.Object] = append(homes[w.Object], home{w.Position, &s.workloads[i]})
	}
	for i, n := range r.Networks {
		homes[n.Object] = append(homes[n.Object], home{n.Position, &s.networks[i]})
	}
	others := map[translate.ObjectRef]int{}
	for _, f := range r.Findings {
		if at := nearest(homes[f.Object], f.Position); at != nil {
			*at = append(*at, f)
			continue
		}
		i, found := others[f.Object]
		if !found {
			i = len(s.others)
			others[f.Object] = i
			s.others = append(s.others, about{object: f.Object})
		}
		s.others[i].findings = append(s.others[i].findings, f)
	}
	slices.SortStableFunc(s.others, func(a, b about) int { return compareRefs(a.object, b.object) })
	return s
}

// home is where the findings of an object go.
type home struct {
	begins   translate.Position
	findings *[]Finding
}

// nearest is that of several objects of one name which begins last before the
// place.
func nearest(homes []home, at translate.Position) *[]Finding {
	var best *home
	for i, h := range homes {
		if h.begins.File != at.File || h.begins.Line > at.Line {
			continue
		}
		if best == nil || h.begins.Line >= best.begins.Line {
			best = &homes[i]
		}
	}
	switch {
	case best != nil:
		return best.findings
	case len(homes) > 0:
		return homes[0].findings
	}
	return nil
}

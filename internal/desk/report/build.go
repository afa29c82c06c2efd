package report

import (
	"cmp"
	"maps"
	"slices"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// Input is the input of a report.
type Input struct {
	// Source names the input for people.
	Source string
	// Files counts the files that were read. A cluster has none.
	Files  int
	Result translate.Result
	// Baseline is an earlier report, whose findings are left out. It may be nil.
	Baseline *Report
}

// Build builds a report. The same input gives the same report.
func Build(in Input) *Report {
	workloads, folded := fold(in.Result.Workloads)
	findings, known := newFindings(withRules(in.Result.Findings, folded), workloads, in.Baseline)
	networks := networksOf(in.Result.Networks, workloads)
	r := &Report{
		APIVersion: APIVersion, Kind: Kind, Source: in.Source,
		Workloads: workloads, Networks: networks, Findings: findings, Namespaces: namespacesOf(workloads), Unrendered: in.Result.Unrendered,
		Summary: Summary{Files: in.Files, Kinds: map[string]int{}, Known: known},
	}
	maps.Copy(r.Summary.Kinds, in.Result.Kinds)
	r.Summary.count(r)
	return r
}

// count counts what the report has.
func (s *Summary) count(r *Report) {
	for _, n := range s.Kinds {
		s.Objects += n
	}
	for _, w := range r.Workloads {
		s.Workloads.add(w.Readiness)
		s.Pods += w.Pods
	}
	for _, n := range r.Networks {
		s.Networks.add(n.Readiness)
	}
	s.Findings = translate.Count(r.Findings)
}

// add counts a verdict.
func (v *Verdicts) add(r translate.Readiness) {
	switch r {
	case translate.Ready:
		v.Ready++
	case translate.ReadyNotes:
		v.ReadyNotes++
	case translate.Stays:
		v.Stays++
	case translate.NotJudged:
		v.NotJudged++
	case translate.NothingToConvert:
		v.NothingToConvert++
	}
}

// withRules adds the texts of the rules. It leaves out findings of folded objects, whose
// owners have the same findings.
func withRules(findings []translate.Finding, folded map[translate.ObjectRef]bool) []translate.Finding {
	out := make([]translate.Finding, 0, len(findings))
	for _, f := range findings {
		if folded[f.Object] {
			continue
		}
		rule, _ := translate.RuleOf(f.Code)
		out = append(out, f.WithRule(rule))
	}
	return out
}

// networksOf adds the users to networks. Networks that workloads name and the input lacks
// are findings.
func networksOf(verdicts []translate.NetworkVerdict, workloads []Workload) []Network {
	users := map[string][]translate.ObjectRef{}
	for _, w := range workloads {
		for _, name := range w.Networks {
			users[name] = append(users[name], w.Object)
		}
	}
	out := make([]Network, 0, len(verdicts))
	for _, v := range verdicts {
		n := Network{NetworkVerdict: v, Users: []translate.ObjectRef{}}
		for _, u := range users[v.Object.Namespace+"/"+v.Object.Name] {
			// Workloads are sorted, so equal users are neighbours.
			if last := len(n.Users) - 1; last < 0 || n.Users[last] != u {
				n.Users = append(n.Users, u)
			}
		}
		out = append(out, n)
	}
	slices.SortStableFunc(out, func(a, b Network) int { return compareRefs(a.Object, b.Object) })
	return out
}

// namespacesOf counts sorted workloads by namespace.
func namespacesOf(workloads []Workload) []Namespace {
	out := []Namespace{}
	for _, w := range workloads {
		if n := len(out); n == 0 || out[n-1].Name != w.Object.Namespace {
			out = append(out, Namespace{Name: w.Object.Namespace})
		}
		out[len(out)-1].Workloads.add(w.Readiness)
	}
	return out
}

// compareRefs orders objects by namespace, kind and name.
func compareRefs(a, b translate.ObjectRef) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

package upgrade

import (
	"slices"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// unservedPools are the findings about resource pools that nadra does not serve.
var unservedPools = []translate.Code{translate.PoolsNotServedUser, translate.PoolUnserved}

// AddVerdicts adds the workloads that stay with Multus according to scan. Static pods do not: a node
// of nadra attaches their networks without a claim.
func (f *Facts) AddVerdicts(verdicts []translate.Verdict) {
	for _, v := range verdicts {
		if v.Readiness != translate.Stays {
			continue
		}
		s := Stay{Workload: Workload{Kind: v.Object.Kind, Namespace: v.Object.Namespace, Name: v.Object.Name}}
		for _, c := range v.Codes {
			if rule, _ := translate.RuleOf(c); rule.Severity == translate.Blocker {
				s.Codes = append(s.Codes, string(c))
			}
		}
		if slices.Equal(s.Codes, []string{string(translate.StaticPod)}) {
			continue
		}
		s.Pinned = f.pinned(s.Workload)
		s.Unserved = len(s.Codes) > 0 && !slices.ContainsFunc(s.Codes, func(code string) bool { return !slices.Contains(unservedPools, translate.Code(code)) })
		f.Stays = append(f.Stays, s)
	}
}

// pinned reports whether all pods of a workload are labelled for Multus.
func (f *Facts) pinned(w Workload) bool {
	of := func(p Pod) bool {
		return p.Workload == w || p.Workload.Kind == "" && w.Kind == "Pod" && p.Namespace == w.Namespace && p.Name == w.Name
	}
	return slices.ContainsFunc(f.Pods, of) && !slices.ContainsFunc(f.Pods, func(p Pod) bool { return of(p) && !p.Pinned })
}

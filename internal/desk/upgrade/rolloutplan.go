package upgrade

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// planRollouts cuts a cluster in which Multus stays on all nodes into waves of namespaces. The first wave has one
// namespace, each other up to MaxUnavailable, those with few pods first.
func (p *planner) planRollouts(out *Plan) {
	var shares []namespaceShare
	for _, ns := range p.rolling(out.staying()) {
		shares = append(shares, p.Rollouts(ns, ToNadra, out.staying()))
	}
	slices.SortStableFunc(shares, func(a, b namespaceShare) int {
		return cmp.Or(cmp.Compare(p.rank(a.Name), p.rank(b.Name)), cmp.Compare(a.pods(), b.pods()), strings.Compare(a.Name, b.Name))
	})
	for _, s := range shares {
		last := len(out.Waves) - 1
		if last < 1 || len(out.Waves[last].Namespaces) >= max(p.MaxUnavailable, 1) {
			out.Waves = append(out.Waves, Wave{Name: fmt.Sprintf("wave-%d", len(out.Waves)+1)})
			last = len(out.Waves) - 1
		}
		w := &out.Waves[last]
		w.Namespaces, w.Rollouts = append(w.Namespaces, s.Name), append(w.Rollouts, s)
	}
	out.Findings = p.rolloutProblems(shares)
	out.Summary = rolloutSummary(out, shares)
}

// pods counts the pods that a rollout restarts.
func (s namespaceShare) pods() int { return total(s.Restarts) }

func total(all []WorkloadPods) int {
	n := 0
	for _, w := range all {
		n += w.Pods
	}
	return n
}

func rolloutSummary(out *Plan, shares []namespaceShare) Summary {
	s := Summary{Waves: len(out.Waves), Namespaces: len(shares), Rollouts: &RolloutSummary{}}
	for _, share := range shares {
		s.Rollouts.Workloads += len(share.Restarts)
		s.Rollouts.Restarted += share.pods()
		s.Rollouts.Later += total(share.Later)
	}
	s.countFindings(out.Findings)
	return s
}

// rolling returns the namespaces that move: those that are not nadra's, and those whose pods are older than the
// label that made them nadra's. It leaves out excluded ones, those that their label leaves to Multus, and
// those that a workload holds back.
func (p *planner) rolling(stays []Workload) []string {
	var out []string
	for _, ns := range p.Namespaces() {
		if p.Owners[ns] == v1alpha1.OwnerMultus || slices.Contains(p.Exclude, ns) || p.heldBack(ns).Kind != "" {
			continue
		}
		if p.owner(ns) != v1alpha1.OwnerNadra || len(p.Rollouts(ns, ToNadra, stays).Restarts) > 0 {
			out = append(out, ns)
		}
	}
	return out
}

// heldBack returns the workload that holds its namespace back, without a kind if there is none. Beside Multus, the webhook
// would refuse its pods in a namespace that has moved.
func (p *planner) heldBack(namespace string) Workload {
	for _, s := range p.Stays {
		if s.Workload.Namespace == namespace && !s.Pinned && (!s.Unserved || !p.BesideMultus) {
			return s.Workload
		}
	}
	return Workload{}
}

// rolloutProblems returns the problems of the waves.
func (p *planner) rolloutProblems(shares []namespaceShare) []translate.Finding {
	out := p.readiness()
	if !p.Installed {
		out = append(out, notInstalled("beside-multus"))
	}
	if len(shares) == 0 {
		out = append(out, problem(codeNothing, blocker, noObject, "no namespace is left to move",
			"Nothing needs to be done, unless --exclude leaves out too many namespaces."))
	}
	for _, b := range p.Blind {
		out = append(out, problem(codeBlind, warning, b.Object, b.Message, b.Fix))
	}
	out = append(out, p.leftNamespaces()...)
	for _, s := range shares {
		out = append(out, p.ofRollout(s)...)
	}
	return out
}

// leftNamespaces explains which namespaces and workloads stay with Multus.
func (p *planner) leftNamespaces() []translate.Finding {
	var out []translate.Finding
	for _, ns := range p.Namespaces() {
		held := p.heldBack(ns)
		switch {
		case p.Owners[ns] == v1alpha1.OwnerMultus:
			out = append(out, problem(codePinned, info, ref("Namespace", "", ns), "its label leaves it to Multus",
				"To move it, remove the label nadra.dev/owner, and plan again."))
		case slices.Contains(p.Exclude, ns):
			out = append(out,
				problem(codePinned, info, ref("Namespace", "", ns), "it stays with Multus: it is excluded", "To move it, plan again."))
		case held.Kind != "":
			out = append(out, problem(
				codeStays, warning, held.ref(), "it stays with Multus, and its whole namespace with it, because the webhook would refuse its pods there",
				"Label its pod template nadra.dev/owner=multus, and plan again: the rest of the namespace then moves.",
			))
		}
	}
	for _, pod := range p.Pods {
		if pod.Static {
			out = append(out, problem(codeStatic, info, ref("Pod", pod.Namespace, pod.Name),
				"it is a static pod, whose networks Multus attaches in any namespace", "Nothing needs to be done."))
		}
	}
	return out
}

// ofRollout checks what a rollout restarts, and what it does not.
func (p *planner) ofRollout(s namespaceShare) []translate.Finding {
	var out []translate.Finding
	for _, w := range s.Later {
		if c := p.controller(w.Workload); c != nil {
			out = append(out, problem(
				codeNoRollout, warning, w.Workload.ref(), c.Held+", so its rollout restarts none of its "+words.Count(w.Pods, "pod"),
				"Change that for the move, or delete its pods when the namespace is nadra's: they come back as nadra's.",
			))
			continue
		}
		out = append(out, problem(
			codeLater, info, w.Workload.ref(), "nothing restarts its "+
				words.Count(w.Pods, "pod")+": nadra serves it from its next start on",
			"Nothing needs to be done, unless its networks are to be nadra's now: then recreate it.",
		))
	}
	for _, b := range p.Budgets {
		if b.Namespace == s.Name {
			out = append(out, p.ofBudget(b, s)...)
		}
	}
	return out
}

// ofBudget compares a budget with the rollouts of its pods' workloads.
func (p *planner) ofBudget(b Budget, s namespaceShare) []translate.Finding {
	object := ref("PodDisruptionBudget", b.Namespace, b.Name)
	for _, w := range s.Restarts {
		c := p.controller(w.Workload)
		protects := slices.ContainsFunc(p.Pods, func(pod Pod) bool { return pod.Workload == w.Workload && b.covers(pod) })
		switch {
		case c == nil || !protects:
		case b.Allowed == 0 && b.Healthy < b.Expected:
			return []translate.Finding{problem(
				codeWaitsBudget, warning, object, fmt.Sprintf("%d of %d required pods are healthy before the rollout of %s",
					b.Healthy, b.Expected, w.Workload),
				"Repair its workload first.",
			)}
		case c.Down > b.Allowed:
			return []translate.Finding{problem(
				codeRolloutPDB, warning, object, fmt.Sprintf("the rollout of %s takes down up to %s at once, and the budget allows %d",
					w.Workload, words.Count(int(c.Down), "pod"), b.Allowed),
				"Lower maxUnavailable of the workload's update strategy if the budget must hold.",
			)}
		}
	}
	return nil
}

// checkRollouts returns the problems of a plan beside Multus in the cluster as it is now, and refuses a plan of the
// other mode.
func checkRollouts(plan *Plan, f Facts) []translate.Finding {
	if plan.BesideMultus != f.BesideMultus {
		what := "the plan moves nodes, and nadra runs beside Multus on one node"
		if plan.BesideMultus {
			what = "the plan moves namespaces beside Multus, and nadra's programs do not run with --beside-multus"
		}
		return []translate.Finding{problem(codeOtherMode, blocker, noObject, what, "Plan again: kubectl nadra upgrade plan.")}
	}
	p := planner{Facts: f}
	var shares []namespaceShare
	for _, w := range plan.Waves {
		for _, ns := range w.Namespaces {
			shares = append(shares, f.Rollouts(ns, ToNadra, plan.staying()))
		}
	}
	return append(p.rolloutProblems(shares), p.contradicted(shares)...)
}

// contradicted returns the namespaces of a plan that must not move any more.
func (p *planner) contradicted(shares []namespaceShare) []translate.Finding {
	var out []translate.Finding
	for _, s := range shares {
		if held := p.heldBack(s.Name); held.Kind != "" {
			out = append(out, problem(
				codeStays, blocker, ref("Namespace", "", s.Name), "the webhook would refuse pods of "+held.String()+" in it",
				"Label its pod template nadra.dev/owner=multus, or remove the namespace from the plan.",
			))
		}
	}
	return out
}

package upgrade

import (
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// The codes of findings.
const (
	codeDoctor       = "NADRA-301"
	CodeMultus       = "NADRA-302"
	codeManaged      = "NADRA-303"
	codeStays        = "NADRA-304"
	codeNowhere      = "NADRA-305"
	codeStatic       = "NADRA-307"
	codeNotSet       = "NADRA-312"
	codeNothing      = "NADRA-313"
	codeNodeLeft     = "NADRA-314"
	codeWaitsBudget  = "NADRA-315"
	codePinned       = "NADRA-316"
	codeNodeOfMultus = "NADRA-317"
	CodePodOfMultus  = "NADRA-318"
	codeConfigured   = "NADRA-319"
	CodeDefault      = "NADRA-320"
	codeNotAdopted   = "NADRA-321"
	codeLater        = "NADRA-322"
	codeNoRollout    = "NADRA-323"
	codeRolloutPDB   = "NADRA-324"
	codeBlind        = "NADRA-325"
	codeOtherMode    = "NADRA-326"
)

// problem returns a finding. Its severity may be milder than its rule's.
func problem(code translate.Code, severity translate.Severity, object translate.ObjectRef, what, fix string) translate.Finding {
	out := translate.NewFinding(rules, code, object, what)
	out.Severity, out.Fix = severity, fix
	return out
}

// noObject is that of a finding about the cluster or the plan.
var noObject translate.ObjectRef

// ref names an object; namespace is empty for one of the cluster.
func ref(kind, namespace, name string) translate.ObjectRef {
	return translate.ObjectRef{Kind: kind, Namespace: namespace, Name: name}
}

// problems returns the problems of the waves.
func (p *planner) problems(movers []Node, left []leftNode) []translate.Finding {
	out := append(p.readiness(), p.installation()...)
	if len(movers) == 0 {
		out = append(out, problem(codeNothing, blocker, noObject, "no node is left to move", "Nothing needs to be done, unless --exclude leaves out too many nodes."))
	}
	for _, l := range left {
		out = append(out, problem(codeNodeLeft, info, ref("Node", "", l.Name), "it stays with Multus: "+l.Why, "To move it, plan again."))
	}
	return append(out, p.staying(movers)...)
}

// readiness returns the blockers of kubectl nadra doctor.
func (p *planner) readiness() []translate.Finding {
	var out []translate.Finding
	for _, what := range p.Doctor {
		out = append(out, problem(codeDoctor, blocker, noObject, what, "Run kubectl nadra doctor, and follow its remedy."))
	}
	return out
}

// notInstalled returns the problem that nadra must be installed first, by an overlay of manifests.
func notInstalled(overlay string) translate.Finding {
	return problem(
		codeNotSet, blocker, noObject, "nadra's driver and controller are not installed",
		"Install them: kubectl apply -k manifests/"+overlay+". This changes nothing for any pod.",
	)
}

// installation checks what must be installed before the first node moves.
func (p *planner) installation() []translate.Finding {
	var out []translate.Finding
	if !p.Installed {
		out = append(out, notInstalled("drop-in"))
	} else if !p.Labelled {
		out = append(out, problem(
			codeNotSet, blocker, noObject, "nadra's driver serves all nodes, including those that Multus serves",
			"Run it with --owned-nodes=labelled, as manifests/drop-in does.",
		))
	}
	if len(p.Multus) == 0 {
		out = append(out, problem(
			CodeMultus, blocker, noObject, "no DaemonSet of Multus was recognized, so it cannot be kept off nadra's nodes",
			"Name it with --multus NAMESPACE/NAME.",
		))
	}
	for _, m := range p.Multus {
		if m.ManagedBy != "" {
			out = append(out, problem(
				codeManaged, warning, ref("DaemonSet", m.Namespace, m.DaemonSet), m.ManagedBy+" manages it, and may revert the change that keeps it off nadra's nodes",
				"Have "+m.ManagedBy+" set the node affinity nadra.dev/owner NotIn [nadra] and updateStrategy OnDelete, or pause it for the upgrade.",
			))
		}
	}
	return out
}

// staying checks that namespaces and workloads that stay with Multus keep a node.
func (p *planner) staying(movers []Node) []translate.Finding {
	var out []translate.Finding
	var leaving []string
	for _, n := range movers {
		leaving = append(leaving, n.Name)
	}
	hasNode := p.hasNodeOf(v1alpha1.OwnerMultus, leaving...)
	for _, ns := range p.namespaces() {
		switch {
		case p.Owners[ns] != v1alpha1.OwnerMultus:
		case hasNode:
			out = append(out, problem(
				codePinned, info, ref("Namespace", "", ns), "its label leaves it to Multus",
				"To move it, remove the label nadra.dev/owner, and plan again.",
			))
		default:
			out = append(out, problem(
				codeNowhere, blocker, ref("Namespace", "", ns), "its label leaves it to Multus, and no node stays with Multus",
				"Keep a node for it with --exclude, or remove its label nadra.dev/owner.",
			))
		}
	}
	for _, s := range p.Stays {
		codes := strings.Join(s.Codes, ", ")
		if !hasNode {
			out = append(out, problem(
				codeNowhere, blocker, s.Workload.ref(), "it stays with Multus ("+codes+"), and no node does",
				"Keep a node for it with --exclude, or correct the finding: kubectl nadra explain "+firstOf(s.Codes)+".",
			))
			continue
		}
		if !s.Pinned {
			out = append(out, problem(
				codeStays, warning, s.Workload.ref(), "it stays with Multus ("+codes+"), and its whole namespace with it",
				"Label its pod template nadra.dev/owner=multus, and plan again: the rest of the namespace then moves.",
			))
		}
	}
	return out
}

// firstOf returns the first code, or a placeholder.
func firstOf(codes []string) string {
	if len(codes) == 0 {
		return "CODE"
	}
	return codes[0]
}

// Check returns the problems of a plan in the cluster as it is now. Nodes that have
// moved already are not a problem, nor are some that are gone. A plan without a node of the cluster is one of another cluster.
func Check(plan *Plan, f Facts) []translate.Finding {
	if plan.BesideMultus || f.BesideMultus {
		return checkRollouts(plan, f)
	}
	p := planner{Facts: f, Options: Options{DomainLabel: plan.DomainLabel}}
	for _, n := range f.Nodes {
		if plan.waveOf(n.Name) < 0 {
			p.Exclude = append(p.Exclude, n.Name)
		}
	}
	if len(p.Exclude) == len(f.Nodes) && len(plan.Movers(plan.Waves...)) > 0 {
		return []translate.Finding{problem(
			codeNothing, blocker, noObject, "the cluster has no node of the plan, which was made for "+plan.Source,
			"Choose the plan's cluster with --context, or plan again.",
		)}
	}
	movers, left := p.divide()
	return slices.DeleteFunc(p.problems(movers, left), func(one translate.Finding) bool { return one.Code == codeNothing })
}

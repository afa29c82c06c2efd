package upgrade

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// Severity ranks problems.
type Severity string

// The severities. A plan with a blocker is not carried out.
const (
	Note    Severity = "note"
	Warning Severity = "warning"
	Blocker Severity = "blocker"
)

// Problem is a blocker of a plan, or something to know before it is carried out.
type Problem struct {
	// Code identifies the kind of problem. It is never reused for another kind.
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// Object is the kind and name of the object with the problem.
	Object string `json:"object,omitempty"`
	// What describes the problem, and Do its remedy.
	What string `json:"what"`
	Do   string `json:"do"`
}

// The codes of problems.
const (
	CodeDoctor       = "NADRA-U01"
	CodeMultus       = "NADRA-U02"
	CodeManaged      = "NADRA-U03"
	CodeStays        = "NADRA-U04"
	CodeNowhere      = "NADRA-U05"
	CodeBare         = "NADRA-U06"
	CodeStatic       = "NADRA-U07"
	CodeTolerates    = "NADRA-U08"
	CodeBudget       = "NADRA-U09"
	CodeLocalData    = "NADRA-U10"
	CodeNoRoom       = "NADRA-U11"
	CodeNotSet       = "NADRA-U12"
	CodeNothing      = "NADRA-U13"
	CodeNodeLeft     = "NADRA-U14"
	CodeWaitsBudget  = "NADRA-U15"
	CodePinned       = "NADRA-U16"
	CodeNodeOfMultus = "NADRA-U17"
	CodePodOfMultus  = "NADRA-U18"
	CodeConfigured   = "NADRA-U19"
	CodeDefault      = "NADRA-U20"
	CodeNotAdopted   = "NADRA-U21"
	CodeLater        = "NADRA-U22"
	CodeNoRollout    = "NADRA-U23"
	CodeRolloutPDB   = "NADRA-U24"
	CodeBlind        = "NADRA-U25"
	CodeOtherMode    = "NADRA-U26"
)

// problems returns the problems of the waves.
func (p *planner) problems(movers []Node, left []LeftNode) []Problem {
	out := append(p.readiness(), p.installation()...)
	if len(movers) == 0 {
		out = append(out, Problem{CodeNothing, Blocker, "", "no node is left to move", "Nothing needs to be done, unless --exclude leaves out too many nodes."})
	}
	for _, l := range left {
		out = append(out, Problem{CodeNodeLeft, Note, "Node " + l.Name, "it stays with Multus: " + l.Why, "To move it, plan again."})
	}
	out = append(out, p.staying(movers)...)
	if !p.Drain {
		return out
	}
	for _, pod := range p.Pods {
		if !pod.Nadra && slices.ContainsFunc(movers, func(n Node) bool { return n.Name == pod.Node }) {
			out = append(out, p.ofPod(pod)...)
		}
	}
	out = append(out, p.budgets(movers)...)
	return append(out, p.room(movers)...)
}

// readiness returns the blockers of kubectl nadra doctor.
func (p *planner) readiness() []Problem {
	var out []Problem
	for _, what := range p.Doctor {
		out = append(out, Problem{CodeDoctor, Blocker, "", what, "Run kubectl nadra doctor, and follow its remedy."})
	}
	return out
}

// notInstalled returns the problem that nadra must be installed first, by an overlay of manifests.
func notInstalled(overlay string) Problem {
	return Problem{
		CodeNotSet, Blocker, "", "nadra's driver and controller are not installed",
		"Install them: kubectl apply -k manifests/" + overlay + ". This changes nothing for any pod.",
	}
}

// installation checks what must be installed before the first node moves.
func (p *planner) installation() []Problem {
	var out []Problem
	if !p.Installed {
		out = append(out, notInstalled("drop-in"))
	} else if !p.Labelled {
		out = append(out, Problem{
			CodeNotSet, Blocker, "", "nadra's driver serves all nodes, including those that Multus serves",
			"Run it with --owned-nodes=labelled, as manifests/drop-in does.",
		})
	}
	if len(p.Multus) == 0 {
		out = append(out, Problem{
			CodeMultus, Blocker, "", "no DaemonSet of Multus was recognized, so it cannot be kept off nadra's nodes",
			"Name it with --multus NAMESPACE/NAME.",
		})
	}
	for _, m := range p.Multus {
		if m.ManagedBy != "" {
			out = append(out, Problem{
				CodeManaged, Warning, "DaemonSet " + m.String(), m.ManagedBy + " manages it, and may revert the change that keeps it off nadra's nodes",
				"Have " + m.ManagedBy + " set the node affinity nadra.dev/owner NotIn [nadra] and updateStrategy OnDelete, or pause it for the upgrade.",
			})
		}
	}
	return out
}

// staying checks that namespaces and workloads that stay with Multus keep a node.
func (p *planner) staying(movers []Node) []Problem {
	var out []Problem
	var leaving []string
	for _, n := range movers {
		leaving = append(leaving, n.Name)
	}
	hasNode := p.HasNodeOf(v1alpha1.OwnerMultus, leaving...)
	for _, ns := range p.namespaces() {
		switch {
		case p.Owners[ns] != v1alpha1.OwnerMultus:
		case hasNode:
			out = append(out, Problem{
				CodePinned, Note, "Namespace " + ns, "its label leaves it to Multus",
				"To move it, remove the label nadra.dev/owner, and plan again.",
			})
		default:
			out = append(out, Problem{
				CodeNowhere, Blocker, "Namespace " + ns, "its label leaves it to Multus, and no node stays with Multus",
				"Keep a node for it with --exclude, or remove its label nadra.dev/owner.",
			})
		}
	}
	for _, s := range p.Stays {
		codes := strings.Join(s.Codes, ", ")
		if !hasNode {
			out = append(out, Problem{
				CodeNowhere, Blocker, s.Workload.String(), "it stays with Multus (" + codes + "), and no node does",
				"Keep a node for it with --exclude, or correct the finding: kubectl nadra explain " + firstOf(s.Codes) + ".",
			})
			continue
		}
		if !s.Pinned {
			out = append(out, Problem{
				CodeStays, Warning, s.Workload.String(), "it stays with Multus (" + codes + "), and its whole namespace with it",
				"Label its pod template nadra.dev/owner=multus, and plan again: the rest of the namespace then moves.",
			})
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

// ofPod checks a pod that would be evicted.
func (p *planner) ofPod(pod Pod) []Problem {
	object := "Pod " + pod.String()
	var out []Problem
	switch {
	case pod.Static:
		return []Problem{{
			CodeStatic, Blocker, object, "it is a static pod: it cannot have claims and cannot be evicted",
			"Plan without --drain, which keeps it; or turn it into a DaemonSet, remove its annotation, or leave out its node with --exclude " + pod.Node + ".",
		}}
	case pod.IsBare():
		out = append(out, Problem{
			CodeBare, Blocker, object, "nothing recreates it after an eviction",
			"Delete it yourself, or have it deleted with --force.",
		})
	case pod.daemon() && pod.Tolerates:
		out = append(out, Problem{
			CodeTolerates, Blocker, pod.Workload.String(), "it tolerates every taint: its pods would come back before nadra serves the node",
			"Narrow its tolerations for the upgrade, or keep its pods off the node by a nodeSelector until then.",
		})
	}
	if pod.LocalData {
		out = append(out, Problem{
			CodeLocalData, Warning, object, "it loses its emptyDir volumes on " + pod.Node,
			"Make sure that it can do without them, as with kubectl drain --delete-emptydir-data.",
		})
	}
	return out
}

// budgets checks for PodDisruptionBudgets that would block an eviction.
func (p *planner) budgets(movers []Node) []Problem {
	var out []Problem
	for _, b := range p.Budgets {
		moved := 0
		for _, pod := range p.Pods {
			if !pod.Nadra && b.covers(pod) &&
				slices.ContainsFunc(movers, func(n Node) bool { return n.Name == pod.Node }) {
				moved++
			}
		}
		object := "PodDisruptionBudget " + b.String()
		switch {
		case moved == 0:
		case b.Allowed == 0 && b.Healthy >= b.Expected:
			out = append(out, Problem{
				CodeBudget, Blocker, object, fmt.Sprintf("it allows no eviction, and the plan evicts %d of its pods", moved),
				"For the upgrade, add a replica to its workload, or allow a disruption.",
			})
		case b.Allowed == 0:
			out = append(out, Problem{
				CodeWaitsBudget, Warning, object, fmt.Sprintf("%d of %d required pods are healthy, so it allows no eviction now", b.Healthy, b.Expected),
				"Repair its workload first.",
			})
		}
	}
	return out
}

// room checks for a single node whose pods have no other node to run on.
func (p *planner) room(movers []Node) []Problem {
	for _, n := range p.Nodes {
		if n.Nadra && n.Ready {
			return nil
		}
	}
	if len(movers) != 1 || len(p.podsOn(movers[0].Name)) == 0 {
		return nil
	}
	return []Problem{{
		CodeNoRoom, Warning, "Node " + movers[0].Name, "it is the only node: its pods are down from its drain until nadra serves it",
		"Plan a maintenance window of a few minutes.",
	}}
}

// Check returns the problems of a plan in the cluster as it is now. Nodes that have
// moved already are not a problem.
func Check(plan *Plan, f Facts) []Problem {
	if plan.BesideMultus || f.BesideMultus {
		return checkRollouts(plan, f)
	}
	p := planner{Facts: f, Options: Options{DomainLabel: plan.DomainLabel, Drain: plan.Drain}}
	for _, n := range f.Nodes {
		if plan.WaveOf(n.Name) < 0 {
			p.Exclude = append(p.Exclude, n.Name)
		}
	}
	movers, left := p.divide()
	return slices.DeleteFunc(p.problems(movers, left), func(one Problem) bool { return one.Code == CodeNothing })
}

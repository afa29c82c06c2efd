package upgrade

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// Severity is how bad a problem is.
type Severity string

// The severities. A plan with a blocker is not carried out.
const (
	Note    Severity = "note"
	Warning Severity = "warning"
	Blocker Severity = "blocker"
)

// Problem is something in the way of a plan, or to know before.
type Problem struct {
	// Code names the kind of problem for good.
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// Object is what it is about.
	Object string `json:"object,omitempty"`
	// What is the problem, and Do what to do about it.
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
)

// problems says what is in the way of the waves.
func (p *planner) problems(movers []Node, left []LeftNode) []Problem {
	var out []Problem
	for _, what := range p.Doctor {
		out = append(out, Problem{CodeDoctor, Blocker, "", what, "kubectl nadra doctor says what to do."})
	}
	out = append(out, p.installation()...)
	if len(movers) == 0 {
		out = append(out, Problem{CodeNothing, Blocker, "", "no node is left to move", "Nothing needs to be done, or leave out fewer nodes with --exclude."})
	}
	for _, l := range left {
		out = append(out, Problem{CodeNodeLeft, Note, "Node " + l.Name, "it stays with Multus: " + l.Why, "Plan again when it is to move."})
	}
	out = append(out, p.staying(movers)...)
	for _, pod := range p.Pods {
		if !pod.Nadra && slices.ContainsFunc(movers, func(n Node) bool { return n.Name == pod.Node }) {
			out = append(out, p.ofPod(pod)...)
		}
	}
	out = append(out, p.budgets(movers)...)
	return append(out, p.room(movers)...)
}

// installation is about what must be there before anything moves.
func (p *planner) installation() []Problem {
	var out []Problem
	if !p.Installed {
		out = append(out, Problem{
			CodeNotSet, Blocker, "", "nadra's driver and controller are not installed",
			"kubectl apply -k manifests/drop-in: nothing changes for any pod by it.",
		})
	} else if !p.Labelled {
		out = append(out, Problem{
			CodeNotSet, Blocker, "", "nadra's driver serves all nodes, also those that Multus serves",
			"Run it with --owned-nodes=labelled, as manifests/drop-in does.",
		})
	}
	if len(p.Multus) == 0 {
		out = append(out, Problem{
			CodeMultus, Blocker, "", "no DaemonSet of Multus was recognized, so that it could not be kept off a node",
			"Name it with --multus NAMESPACE/NAME.",
		})
	}
	for _, m := range p.Multus {
		if m.ManagedBy != "" {
			out = append(out, Problem{
				CodeManaged, Warning, "DaemonSet " + m.String(), "it is managed by " + m.ManagedBy + ", which may undo that it is kept off nadra's nodes",
				"Have " + m.ManagedBy + " set the node affinity nadra.dev/owner NotIn [nadra] and updateStrategy OnDelete, or pause it for the upgrade.",
			})
		}
	}
	return out
}

// staying is about workloads that nadra cannot serve.
func (p *planner) staying(movers []Node) []Problem {
	var out []Problem
	var going []string
	for _, n := range movers {
		going = append(going, n.Name)
	}
	home := p.HasHome(false, going...)
	for _, ns := range p.namespaces() {
		switch {
		case p.Owners[ns] != v1alpha1.OwnerMultus:
		case home:
			out = append(out, Problem{
				CodePinned, Note, "Namespace " + ns, "its label leaves it to Multus",
				"Remove the label nadra.dev/owner and plan again when it is to move.",
			})
		default:
			out = append(out, Problem{
				CodeNowhere, Blocker, "Namespace " + ns, "its label leaves it to Multus, and no node stays with Multus",
				"Leave it a node with --exclude, or remove its label nadra.dev/owner.",
			})
		}
	}
	for _, s := range p.Stays {
		codes := strings.Join(s.Codes, ", ")
		if !home {
			out = append(out, Problem{
				CodeNowhere, Blocker, s.Workload.String(), "it stays with Multus (" + codes + "), and no node does",
				"Leave it a node with --exclude, or correct what blocks it: kubectl nadra explain " + firstOf(s.Codes) + ".",
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

func firstOf(codes []string) string {
	if len(codes) == 0 {
		return "CODE"
	}
	return codes[0]
}

// ofPod is about a pod that is to be evicted.
func (p *planner) ofPod(pod Pod) []Problem {
	object := "Pod " + pod.String()
	var out []Problem
	switch {
	case pod.Static:
		return []Problem{{
			CodeStatic, Blocker, object, "it is a static pod, which cannot have claims and cannot be evicted",
			"Make it a DaemonSet, remove the annotation, or leave its node with --exclude " + pod.Node + ".",
		}}
	case pod.Workload.Kind == "":
		out = append(out, Problem{
			CodeBare, Blocker, object, "nothing makes it again when it is evicted",
			"Delete it yourself when it may go, or say --force to have it deleted.",
		})
	case pod.daemon() && pod.Tolerates:
		out = append(out, Problem{
			CodeTolerates, Blocker, pod.Workload.String(), "it tolerates every taint: its pods come back before the node is nadra's",
			"Narrow its tolerations for the upgrade, or take its pods off the node by a nodeSelector until then.",
		})
	}
	if pod.LocalData {
		out = append(out, Problem{
			CodeLocalData, Warning, object, "it loses what it has in emptyDir volumes on " + pod.Node,
			"See that it can do without, as with kubectl drain --delete-emptydir-data.",
		})
	}
	return out
}

// budgets is about those that would hold an eviction back.
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
				CodeBudget, Blocker, object, fmt.Sprintf("it never lets any of its pods go, of which %d would have to", moved),
				"Give its workload another replica, or the budget more room, for the upgrade.",
			})
		case b.Allowed == 0:
			out = append(out, Problem{
				CodeWaitsBudget, Warning, object, fmt.Sprintf("%d of %d pods are healthy, so that none may go now", b.Healthy, b.Expected),
				"Heal its workload before.",
			})
		}
	}
	return out
}

// room is about a last wave after which nothing could be anywhere.
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
		CodeNoRoom, Warning, "Node " + movers[0].Name, "it is the only one: its pods are down from its drain until it is nadra's",
		"Plan a time when they may be, of a few minutes.",
	}}
}

// Check says what is in the way of a plan as the cluster is now. Nodes that have
// moved are no reason to stop.
func Check(plan *Plan, f Facts) []Problem {
	p := planner{Facts: f, Options: Options{DomainLabel: plan.DomainLabel}}
	for _, n := range f.Nodes {
		if plan.WaveOf(n.Name) < 0 {
			p.Exclude = append(p.Exclude, n.Name)
		}
	}
	movers, left := p.divide()
	return slices.DeleteFunc(p.problems(movers, left), func(one Problem) bool { return one.Code == CodeNothing })
}

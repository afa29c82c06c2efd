package upgrade

import (
	"fmt"
	"slices"
	"strings"
)

// Rule explains a code.
type Rule struct {
	Code, Title string
	// Why is why it matters for the move.
	Why string
}

// Anchor is the place in the documentation that has the rule.
func (r Rule) Anchor() string { return "docs/upgrade.md#" + strings.ToLower(r.Code) }

// rules are in the order of their codes.
var rules = []Rule{
	{CodeDoctor, "doctor has a blocker", "What keeps nadra from working at all keeps pods from starting on the first node that moves."},
	{CodeMultus, "Multus is not recognized", "On a node that has moved, Multus must not attach what nadra attaches. Who is not known cannot be kept off it."},
	{CodeManaged, "Multus' DaemonSet is managed", "It is kept off nadra's nodes by an affinity of its pod template. Whoever puts the template back brings Multus back to them."},
	{CodeStays, "a workload holds its namespace back", "Pods of a namespace that is nadra's are refused if nadra cannot serve them; so the namespace waits."},
	{CodeNowhere, "what stays has no node", "Pods that Multus serves are scheduled away from nadra's nodes. Without another node they are pending."},
	{CodeBare, "a pod that nobody makes again", "Only pods of a controller come back after an eviction."},
	{CodeStatic, "a static pod with networks", "A kubelet makes static pods from files: they cannot have claims, and on nadra's nodes they are refused."},
	{CodeTolerates, "a DaemonSet that no taint keeps away", "While its node moves, a DaemonSet's pods are kept away by a taint. One that tolerates it comes back too early, and is attached by Multus."},
	{CodeBudget, "a budget without room", "An eviction that a PodDisruptionBudget never allows is tried until somebody ends it."},
	{CodeLocalData, "data in an emptyDir", "An evicted pod comes back with empty ones."},
	{CodeNoRoom, "a single node", "What is evicted from it has nowhere else to go."},
	{CodeNotSet, "nadra is not set up for it", "Driver and controller must be there, and serve only nodes that are labelled, before the first node moves."},
	{CodeNothing, "no node to move", "All nodes have moved, or are left out."},
	{CodeNodeLeft, "a node that stays", "Multus goes on serving it."},
	{CodeWaitsBudget, "a budget of unhealthy pods", "Its pods cannot be evicted before more of them are healthy."},
	{CodePinned, "a namespace that a label leaves to Multus", "What a person has decided is not decided again."},
	{CodeNodeOfMultus, "a node that is Multus'", "Pods on it have no networks without Multus."},
	{CodePodOfMultus, "a pod that Multus has attached", "Who has attached a pod's networks takes them off again; without Multus its addresses and devices would be lost."},
	{CodeConfigured, "a runtime that asks Multus", "It could make no sandbox any more when Multus is gone."},
	{CodeDefault, "Multus is the cluster's default", "Pods that no label decides about are scheduled away from nadra's nodes."},
}

// Rules are all of them, sorted by code.
func Rules() []Rule { return slices.Clone(rules) }

// RulesTable is the table of docs/upgrade.md.
func RulesTable() string {
	var b strings.Builder
	b.WriteString("| code | | why it matters |\n| --- | --- | --- |\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "| <a id=\"%s\"></a>%s | %s | %s |\n", strings.ToLower(r.Code), r.Code, r.Title, r.Why)
	}
	return b.String()
}

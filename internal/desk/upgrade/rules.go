package upgrade

import (
	"slices"
	"strings"
)

// Rule explains a code.
type Rule struct {
	Code, Title string
	// Why explains why it matters for the move.
	Why string
}

// Anchor returns the rule's place in the documentation.
func (r Rule) Anchor() string { return "docs/migrate/upgrade-blockers.md#" + strings.ToLower(r.Code) }

// rules are in the order of their codes.
var rules = []Rule{
	{CodeDoctor, "doctor has a blocker", "A blocker of doctor keeps pods from starting on the first node that moves."},
	{CodeMultus, "Multus is not recognized", "On a node that has moved, Multus must not attach networks that nadra attaches. An unknown DaemonSet cannot be kept off the node."},
	{CodeManaged, "Multus' DaemonSet is managed", "An affinity in its pod template keeps it off nadra's nodes. A manager that reverts the template brings Multus back to them."},
	{CodeStays, "a workload holds its namespace back", "nadra refuses pods that it cannot serve in the namespaces that it serves, so the namespace does not move."},
	{CodeNowhere, "what stays with Multus has no node", "Pods that Multus serves are scheduled away from nadra's nodes. Without another node they stay Pending."},
	{CodeBare, "a bare pod", "Only pods of a controller come back after an eviction."},
	{CodeStatic, "a static pod with networks", "The kubelet creates static pods from files: they cannot be evicted, so the networks that Multus has attached stay until somebody restarts them."},
	{CodeTolerates, "a DaemonSet that tolerates every taint", "While its node moves, a taint keeps a DaemonSet's pods off it. A pod that tolerates the taint comes back too early, and Multus attaches its networks."},
	{CodeBudget, "a budget that allows no eviction", "The drain of the node would retry the eviction until it times out."},
	{CodeLocalData, "data in an emptyDir", "The emptyDir volumes of an evicted pod are deleted."},
	{CodeNoRoom, "a single node", "Pods that are evicted from it have no other node to run on."},
	{CodeNotSet, "nadra is not installed for a move", "Before the first node moves, driver and controller must run, and serve labelled nodes only."},
	{CodeNothing, "no node to move", "All nodes have moved, or are left out."},
	{CodeNodeLeft, "a node that stays", "Multus continues to serve it."},
	{CodeWaitsBudget, "a budget of unhealthy pods", "Its pods cannot be evicted before more of them are healthy."},
	{CodePinned, "a namespace that its label leaves to Multus", "The upgrade does not override a person's decision."},
	{CodeNodeOfMultus, "a node that Multus serves", "Without Multus, pods on it have no networks."},
	{CodePodOfMultus, "a pod with networks of Multus", "Multus detaches the networks that it attached; without it the pod's addresses and devices would leak."},
	{CodeConfigured, "a container runtime with Multus' configuration", "Without Multus it cannot create a sandbox."},
	{CodeDefault, "Multus is the cluster's default", "Pods without an owner label are scheduled away from nadra's nodes."},
	{CodeNotAdopted, "networks that nadra has not adopted", "Multus would detach them; without it the pods' addresses and devices would leak."},
	{CodeLater, "pods that nothing restarts", "A rollout restarts Deployments, StatefulSets and DaemonSets. Other pods, such as those of Jobs, stay with Multus until they are created again."},
	{CodeNoRollout, "a workload whose rollout restarts nothing", "Its pods stay with Multus until they are deleted, because its update strategy or its pause holds the rollout."},
	{CodeRolloutPDB, "a rollout that takes down more pods than a budget allows", "Budgets limit evictions. A rollout does not ask them."},
	{CodeBlind, "a program that does not see nadra's pods", "Beside Multus, the networks of nadra's pods are in another annotation than the one that the program reads."},
	{CodeOtherMode, "a plan of another mode", "Beside Multus on one node, namespaces move by rollouts; elsewhere nodes move."},
}

// Rules returns all rules, sorted by code.
func Rules() []Rule { return slices.Clone(rules) }

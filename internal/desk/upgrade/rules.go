package upgrade

import (
	"slices"

	"github.com/nadra-dev/nadra/pkg/translate"
)

const blocker, warning, info = translate.Blocker, translate.Warning, translate.Info

func rule(code translate.Code, severity translate.Severity, title, why string) translate.Rule {
	return translate.Rule{Code: code, Severity: severity, Title: title, Why: why}
}

// rules are in the order of their codes. What was found and what to do is in each finding.
var rules = []translate.Rule{
	rule(codeDoctor, blocker, "doctor has a blocker", "A blocker of doctor keeps pods from starting on the first node that moves."),
	rule(CodeMultus, blocker, "Multus is not recognized", "On a node that has moved, Multus must not attach networks that nadra attaches. An unknown DaemonSet cannot be kept off the node."),
	rule(codeManaged, warning, "Multus' DaemonSet is managed", "An affinity in its pod template keeps it off nadra's nodes. A manager that reverts the template brings Multus back to them."),
	rule(codeStays, warning, "a workload holds its namespace back", "nadra refuses pods that it cannot serve in the namespaces that it serves, so the namespace does not move."),
	rule(codeNowhere, blocker, "what stays with Multus has no node", "Pods that Multus serves are scheduled away from nadra's nodes. Without another node they stay Pending."),
	rule(codeStatic, info, "a static pod with networks", "The kubelet creates static pods from files. Beside Multus, Multus attaches their networks in any namespace."),
	rule(codeNotSet, blocker, "nadra is not installed for a move", "Before the first node moves, driver and controller must run, and serve labelled nodes only."),
	rule(codeNothing, blocker, "no node to move", "All nodes have moved, or are left out."),
	rule(codeNodeLeft, info, "a node that stays", "Multus continues to serve it."),
	rule(codeWaitsBudget, warning, "a budget of unhealthy pods", "A rollout takes down more of its pods while some are missing."),
	rule(codePinned, info, "a namespace that its label leaves to Multus", "The upgrade does not override a person's decision."),
	rule(codeNodeOfMultus, blocker, "a node that Multus serves", "Without Multus, pods on it have no networks."),
	rule(CodePodOfMultus, blocker, "a pod with networks of Multus", "Multus detaches the networks that it attached; without it the pod's addresses and devices would leak."),
	rule(codeConfigured, blocker, "a container runtime with Multus' configuration", "Without Multus it cannot create a sandbox."),
	rule(CodeDefault, blocker, "Multus is the cluster's default", "Pods without an owner label are scheduled away from nadra's nodes."),
	rule(codeNotAdopted, blocker, "networks that nadra has not adopted", "Multus would detach them; without it the pods' addresses and devices would leak."),
	rule(codeLater, info, "pods that nothing restarts", "A rollout restarts Deployments, StatefulSets and DaemonSets. Other pods, such as those of Jobs, stay with Multus until they are created again."),
	rule(codeNoRollout, warning, "a workload whose rollout restarts nothing", "Its pods stay with Multus until they are deleted, because its update strategy or its pause holds the rollout."),
	rule(codeRolloutPDB, warning, "a rollout that takes down more pods than a budget allows", "Budgets limit evictions. A rollout does not ask them."),
	rule(codeBlind, warning, "a program that does not see nadra's pods", "Beside Multus, the networks of nadra's pods are in another annotation than the one that the program reads."),
	rule(codeOtherMode, blocker, "a plan of another mode", "Beside Multus on one node, namespaces move by rollouts; elsewhere nodes move."),
}

// Rules returns all rules, sorted by code.
func Rules() []translate.Rule { return slices.Clone(rules) }

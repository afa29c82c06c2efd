package cleanup

import (
	"slices"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// The codes of findings. Numbers below 510 are about users of nadra.
const (
	codePods       = "NADRA-501"
	codeClaim      = "NADRA-502"
	codeLabel      = "NADRA-503"
	codeAnnotation = "NADRA-504"
	codeUpgrade    = "NADRA-505"
	codeAttached   = "NADRA-506"
	codePendingDEL = "NADRA-507"
	codeLeftOver   = "NADRA-508"
	codeNextPods   = "NADRA-509"

	codeNotJudged = "NADRA-510"
	codeUnread    = "NADRA-511"
)

// rollBack gives all pods, nodes and namespaces of an upgrade back to Multus.
const rollBack = "kubectl nadra upgrade rollback --all -y"

func rule(code translate.Code, severity translate.Severity, title, why, fix string) translate.Rule {
	return translate.Rule{Code: code, Severity: severity, Title: title, Why: why, Fix: fix}
}

// rules are in the order of their codes. What was found is in each finding.
var rules = []translate.Rule{
	rule(codePods, translate.Blocker, "pods have networks of nadra",
		"Only the driver can unprepare their claims: without it they cannot be deleted.",
		"Recreate the pods without nadra (after an upgrade: "+rollBack+"), or delete them."),
	rule(codeClaim, translate.Blocker, "a claim has a device of nadra, and no pod",
		"Only the driver can free the device.",
		"Delete the claim: kubectl -n NAMESPACE delete resourceclaim NAME."),
	rule(codeLabel, translate.Blocker, "a node or a namespace is labelled for nadra",
		"Pods with networks would be left to nadra, and run without them.",
		"Remove the label: kubectl label KIND NAME nadra.dev/owner-. After an upgrade, roll back to Multus instead: "+rollBack+"."),
	rule(codeAnnotation, translate.Blocker, "networks are named in nadra's own annotation",
		"Only nadra reads "+attachment.OwnNetworksAnnotation+": the next pods would run without these networks.",
		"Name them in "+attachment.NetworksAnnotation+" again, remove the claims of a conversion, and recreate the pods; or delete them."),
	rule(codeUpgrade, translate.Blocker, "an upgrade is not finished",
		"Its state has what Multus and the nodes had before.",
		"Finish it with kubectl nadra upgrade finish --remove-multus, after kubectl nadra upgrade resume if it has stopped; or roll it back with "+rollBack+"."),
	rule(codeAttached, translate.Blocker, "a node has an attachment of nadra",
		"Only the driver can detach it.",
		"Wait until the pod is gone, or delete it; nadra's driver must run on the node."),
	rule(codePendingDEL, translate.Blocker, "a node has a pending DEL",
		"Without the DEL, addresses and devices of a pod that has ended stay taken.",
		"Repair what the message names; nadra's driver retries the DEL. If it cannot be repaired, leave the node as it is: --exclude-node NODE."),
	rule(codeLeftOver, translate.Blocker, "a node has what a deleted pod left behind",
		"It is freed by what nadra's CNI cache has, which is removed with nadra.",
		"Clean up the node: kubectl nadra cleanup --apply --node NODE."),
	rule(codeNextPods, translate.Warning, "a workload requests networks by a claim",
		"Without nadra, its next pods stay Pending.",
		"Take the claim out of its pod template, or delete the workload."),
	rule(codeNotJudged, translate.Blocker, "a node was not judged",
		"Sandboxes may run there that nobody knows, so nothing is freed on the node, and no address of whereabouts.",
		"Repair what the message names, and run cleanup again."),
	rule(codeUnread, translate.Warning, "a part of a node was not read",
		"There may be more orphans.",
		"Repair what the message names, and run cleanup again."),
}

// Rules returns all rules, sorted by code.
func Rules() []translate.Rule { return slices.Clone(rules) }

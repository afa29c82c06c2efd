package canary

import (
	"slices"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// The codes of findings.
const (
	codeNotReady   = "NADRA-470"
	codeNoNetwork  = "NADRA-471"
	codeInterface  = "NADRA-472"
	codePing       = "NADRA-473"
	codeLossy      = "NADRA-474"
	codeSeparate   = "NADRA-475"
	codeNotTested  = "NADRA-476"
	codeLeftBehind = "NADRA-477"
)

func rule(code translate.Code, severity translate.Severity, title, what, why, fix string) translate.Rule {
	return translate.Rule{Code: code, Severity: severity, Title: title, What: what, Why: why, Fix: fix}
}

// rules are in the order of their codes.
var rules = []translate.Rule{
	rule(codeNotReady, translate.Blocker, "A canary does not start",
		"It could not be created, has ended, was not ready in time, or could not be inspected.",
		"Other pods with this network would not start on the node either, unless the cause is the canary's own, such as its image.",
		"Remove the cause that the message names. While a canary waits, kubectl nadra explain pod/NAME -n NAMESPACE shows the step that fails."),
	rule(codeNoNetwork, translate.Blocker, "A canary runs without its network",
		"Its network-status does not have the network.",
		"Neither nadra nor Multus has attached it. Other pods of the namespace would run without the network on this node, too.",
		"See who serves the canary's namespace and the node: kubectl get namespaces,nodes -L nadra.dev/owner. Its nadra or Multus must run on the node."),
	rule(codeInterface, translate.Blocker, "An interface is not as network-status says",
		"It is missing, is down, has no carrier, or has another MAC or other addresses.",
		"Pods cannot use the network, or others look for them at addresses that they do not have.",
		"Check the network's master on the node, and the configuration of its plugins."),
	rule(codePing, translate.Blocker, "A canary does not reach another",
		"A ping was not answered, or left through another interface, or both canaries have the same address.",
		"Pods on these nodes cannot communicate through the network.",
		"Check the links, VLANs and MTU between the nodes' masters, and the pods' routes. If both canaries have one address, use an IPAM plugin that knows all nodes, such as whereabouts."),
	rule(codeLossy, translate.Warning, "A canary reaches another at times",
		"Some requests of a ping were not answered.",
		"The network loses packets.",
		"Test again. If packets are lost each time, check the links between the nodes' masters."),
	rule(codeSeparate, translate.Info, "A canary cannot reach another by design",
		"A ping was not answered, and the network separates the two canaries.",
		"Examples are ptp, dummy, a bridge that is the gateway of each node, and macvlan in mode private.",
		"Nothing needs to be done."),
	rule(codeNotTested, translate.Warning, "A network was not tested",
		"No node offers it, or a canary would take something from running pods.",
		"It is unknown whether pods get this network.",
		"If no node offers it, see why: kubectl nadra get networks -o wide. Otherwise look at a pod that uses it, with kubectl nadra explain."),
	rule(codeLeftBehind, translate.Warning, "A canary is left behind",
		"It could not be deleted, or was not gone within a minute.",
		"Until its end it keeps its addresses and devices. It ends by itself some minutes later.",
		"Delete the pod. If it stays, see what keeps it: kubectl nadra explain pod/NAME -n NAMESPACE."),
}

// Rules returns all rules, sorted by code.
func Rules() []translate.Rule { return slices.Clone(rules) }

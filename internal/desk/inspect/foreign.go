package inspect

import (
	"strings"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// foreignText is a part of a message that another component writes. Such messages have no
// reason code, so their words decide. nadra's own messages must not be recognized here.
type foreignText struct {
	text   string
	source string // the component, and the function or file that has the text
	owner  reason.Owner
	remedy string
}

// lookup returns the first of the texts that the message contains.
func lookup(message string, texts []foreignText) (foreignText, bool) {
	for _, t := range texts {
		if strings.Contains(message, t.text) {
			return t, true
		}
	}
	return foreignText{}, false
}

const (
	unregistered = "The kubelet knows no driver net.nadra.dev on this node. " + noDriver
	rangeIsFull  = "The range is full: widen it in the NetworkAttachmentDefinition's IPAM, or delete pods that no longer need an address. " + retriedCorrected
	earlySysctl  = "If it names an interface of the pod's networks, remove the sysctl from the pod and set it in the network, with the plugin tuning (NADRA-089): the runtime writes it before nadra attaches."
	celFails     = "An expression of a request or of its DeviceClass fails on a device, of whatever driver: correct the one that the message names. An attribute that not all devices have needs a test before its use: \"name\" in device.attributes[\"domain\"]."
	lacksPart    = "Install or create on the node what the message names. " + retried
)

// ofKubelet lists texts of the kubelet's Events before there is a sandbox.
var ofKubelet = []foreignText{
	{"is not registered", "kubelet, pkg/kubelet/cm/dra/plugin (Kubernetes 1.34)", reason.OfCluster, unregistered},
	{"not found in the list of registered DRA drivers", "kubelet, pkg/kubelet/cm/dra/plugin (before 1.34)", reason.OfCluster, unregistered},
}

// ofPlugins lists texts of CNI plugins and of the libraries that they use, and of what else keeps a sandbox from starting.
var ofPlugins = []foreignText{
	{"open sysctl net.", "runc, internal/sys, WriteSysctls (1.4)", reason.OfManifest, earlySysctl},
	{"no IP addresses available", "host-local, backend/allocator", reason.OfNetwork, rangeIsFull},
	{"address range is full", "whereabouts, pkg/allocate, AssignmentError", reason.OfNetwork, rangeIsFull},
	{"failed to find plugin", "libcni, pkg/invoke, FindInPath", reason.OfNode, lacksPart},
	{"executable file not found", "Go, os/exec, ErrNotFound", reason.OfNode, lacksPart},
	{"Link not found", "vishvananda/netlink, LinkNotFoundError", reason.OfNode, lacksPart},
	{"no such device", "Linux, ENODEV", reason.OfNode, lacksPart},
	{"lookup master", "containernetworking/plugins, macvlan and ipvlan", reason.OfNode, lacksPart},
}

// ofScheduler lists texts of the scheduler about a claim.
var ofScheduler = []foreignText{
	{"CEL runtime error", "dynamic-resource-allocation, structured/internal, selectorsMatch", reason.OfManifest, celFails},
	{"CEL compile error", "dynamic-resource-allocation, structured/internal, selectorsMatch", reason.OfManifest, celFails},
}

// isAboutClaims reports whether the scheduler's message about an unschedulable pod is
// about claims: "cannot allocate all claims" (kube-scheduler, plugin DynamicResources).
func isAboutClaims(message string) bool {
	m := strings.ReplaceAll(strings.ToLower(message), "persistentvolumeclaim", "")
	return strings.Contains(m, "claim") || strings.Contains(m, "device")
}

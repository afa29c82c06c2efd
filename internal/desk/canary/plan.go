package canary

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Input is what a plan is made from.
type Input struct {
	// NADs are the networks to test.
	NADs []*nadv1.NetworkAttachmentDefinition
	// Offers are the nodes that offer each network, Pools the nodes with devices of each
	// resource pool.
	Offers map[attachment.NetworkRef][]string
	Pools  map[string][]string
	// Nodes are the nodes to test on; empty means the nodes that offer the network.
	Nodes []string
	// PerNode is the number of canaries of each network on a node.
	PerNode int
	Settings
}

// Settings are the settings of all canaries.
type Settings struct {
	// Run identifies the canaries of this run.
	Run string
	// Namespace is the namespace of the canaries; empty means the network's own.
	Namespace string
	// Image is an image with nadra-node. PullSecrets are the Secrets that it needs, in
	// SecretsNamespace.
	Image            string
	PullSecrets      []string
	SecretsNamespace string
	// Timeout limits the time until a canary is ready.
	Timeout time.Duration
	// Owner is the value of the canaries' label nadra.dev/owner; empty leaves the owner
	// to their namespace.
	Owner string
	// BesideMultus is set if Multus stays on nadra's nodes. Canaries whose Owner is nadra then name their network
	// in nadra's own annotation, so that Multus cannot attach it in nadra's place.
	BesideMultus bool
}

// Plan lists the canaries to run.
type Plan struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Source names the cluster's context for people.
	Source   string        `json:"source,omitempty"`
	Networks []NetworkPlan `json:"networks"`
	// Pods, Addresses and Devices are the numbers that all canaries take together.
	Pods      int `json:"pods"`
	Addresses int `json:"addresses"`
	Devices   int `json:"devices"`

	Settings `json:"-"`
}

// NetworkPlan is the test of a network.
type NetworkPlan struct {
	Network string   `json:"network"`
	Plugins []string `json:"plugins,omitempty"`
	IPAM    string   `json:"ipam,omitempty"`
	Pool    string   `json:"pool,omitempty"`
	// Skipped is why it is not tested; empty if it is.
	Skipped string `json:"skipped,omitempty"`
	Pods    []Pod  `json:"pods,omitempty"`
	// Addresses and Devices are the numbers that the network's canaries take together.
	Addresses int `json:"addresses,omitempty"`
	Devices   int `json:"devices,omitempty"`

	facts facts
}

// Pod is a canary.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node"`
}

// NewPlan plans the canaries. The same input gives the same plan.
func NewPlan(in Input) *Plan {
	p := &Plan{APIVersion: APIVersion, Kind: PlanKind, Networks: []NetworkPlan{}, Settings: in.Settings}
	for _, nad := range in.NADs {
		n := in.network(nad)
		p.Pods += len(n.Pods)
		p.Addresses += n.Addresses
		p.Devices += n.Devices
		p.Networks = append(p.Networks, n)
	}
	slices.SortFunc(p.Networks, func(a, b NetworkPlan) int { return cmp.Compare(a.Network, b.Network) })
	return p
}

// network plans the canaries of a network.
func (in *Input) network(nad *nadv1.NetworkAttachmentDefinition) NetworkPlan {
	ref := attachment.NetworkRef{Namespace: nad.Namespace, Name: nad.Name}
	out := NetworkPlan{Network: ref.String(), Pool: attachment.PoolOf(nad.Annotations)}
	parsed, err := attachment.ParseNetwork(nad)
	if errors.Is(err, attachment.ErrNoConfig) { // a file on the nodes has it
		err = nil
	}
	if err = cmp.Or(err, parsed.CheckNoDeviceFrom()); err != nil {
		out.Skipped = err.Error()
		return out
	}
	plugins, ipams := parsed.Programs()
	out.Plugins, out.IPAM = plugins, cmp.Or(ipams...)
	out.facts = factsOf(parsed)
	if out.Skipped = out.facts.unfit(out.Pool); out.Skipped != "" {
		return out
	}
	nodes := in.Nodes
	switch {
	case len(nodes) > 0:
	case out.Pool != "":
		nodes = in.Pools[out.Pool]
	default:
		nodes = in.Offers[ref]
	}
	if len(nodes) == 0 {
		out.Skipped = "no node offers it: if Multus serves it, name a node to test it on (--node)"
		return out
	}
	nodes = slices.Compact(slices.Sorted(slices.Values(nodes)))
	for _, node := range nodes {
		for i := range max(in.PerNode, 1) {
			out.Pods = append(out.Pods, Pod{
				Namespace: cmp.Or(in.Namespace, ref.Namespace), Name: podName(ref, in.Run, node, i), Node: node,
			})
		}
	}
	out.Addresses = len(out.Pods) * out.facts.addresses
	if out.Pool != "" {
		out.Devices = len(out.Pods)
	}
	return out
}

// podName returns a unique DNS label with the network's name.
func podName(ref attachment.NetworkRef, run, node string, i int) string {
	const hashed, longest = 10, 63
	sum := sha256.Sum256([]byte(strings.Join([]string{ref.String(), run, node, fmt.Sprint(i)}, "|")))
	readable := Name + "-" + strings.ReplaceAll(ref.Name, ".", "-")
	return strings.TrimRight(readable[:min(len(readable), longest-1-hashed)], "-") + "-" + hex.EncodeToString(sum[:])[:hashed]
}

// facts are the facts of a configuration that decide how to test it.
type facts struct {
	plugin, mode string
	// gateway is true for a bridge that is a separate gateway on each node.
	gateway bool
	// fixed are addresses that every pod has. requested is true if each pod must request
	// an address.
	fixed     []string
	requested bool
	// device is the device of the host that the plugin moves into the pod.
	device string
	// addresses is the number of addresses that the IPAM plugin assigns to a pod.
	addresses int
}

// factsOf returns the facts of a network.
func factsOf(n attachment.Network) facts {
	var out facts
	if len(n.Plugins) == 0 {
		return out
	}
	out.plugin, out.mode = n.Plugins[0].Type, n.Plugins[0].Mode
	var chain struct {
		Plugins []struct {
			IsGateway        bool   `json:"isGateway"`
			IsDefaultGateway bool   `json:"isDefaultGateway"`
			Device           string `json:"device"`
			HWAddr           string `json:"hwaddr"`
			KernelPath       string `json:"kernelpath"`
			PCIBusID         string `json:"pciBusID"`
		} `json:"plugins"`
	}
	_ = json.Unmarshal(n.Conflist, &chain) // plugins check the types of their fields
	if len(chain.Plugins) > 0 {
		p := chain.Plugins[0]
		out.gateway = p.IsGateway || p.IsDefaultGateway
		out.device = cmp.Or(p.Device, p.PCIBusID, p.HWAddr, p.KernelPath)
	}
	for _, p := range n.Plugins {
		switch {
		case p.IPAM.Type == "":
		case p.IPAM.Plugin().Fixed:
			out.requested = out.requested || len(p.IPAM.Addresses) == 0
			out.fixed = append(out.fixed, p.IPAM.Fixed()...)
		default:
			out.addresses += max(len(p.IPAM.Sets), 1)
		}
	}
	return out
}

// unfit returns why a canary would harm the pods of a network; empty if it would not.
func (f facts) unfit(pool string) string {
	switch {
	case len(f.fixed) > 0:
		return "every pod of it has address " + strings.Join(f.fixed, ", ") + ": a canary would take it from running pods"
	case f.requested:
		return "each of its pods requests its own address: no address is known to be free for a canary"
	case f.plugin == "host-device" && pool == "" && f.device != "":
		return "it moves " + f.device + " of the host into a pod: a canary would take it from the pod that has it"
	case f.mode == "passthru":
		return "in mode passthru its master serves one pod: a canary would be a second one"
	}
	return ""
}

// unreachable returns why two pods of the network cannot reach each other; empty if they
// can, or if it is unknown.
func (f facts) unreachable(sameNode bool) string {
	switch {
	case f.plugin == "dummy":
		return "a dummy interface leads nowhere"
	case f.plugin == "ptp" && !sameNode:
		return "ptp ends at the node, which may not route"
	case f.plugin == "bridge" && f.gateway && !sameNode:
		return "the bridge is a separate gateway on each node"
	case f.plugin == "macvlan" && f.mode == "private" && sameNode:
		return "in mode private the pods of a node do not see each other"
	}
	return ""
}

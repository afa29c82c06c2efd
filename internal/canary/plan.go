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

// Input is what a plan is made of.
type Input struct {
	// NADs are the networks to try.
	NADs []*nadv1.NetworkAttachmentDefinition
	// Offers are the nodes that offer each network, and Pools those with devices
	// of each resource pool.
	Offers map[attachment.NetworkRef][]string
	Pools  map[string][]string
	// Nodes are those to run on; empty means those that offer the network.
	Nodes []string
	// PerNode is how many canaries of a network a node gets.
	PerNode int
	Settings
}

// Settings are those of every canary.
type Settings struct {
	// Run tells the canaries of this run from others'.
	Run string
	// Namespace is where they are made; empty means the network's own.
	Namespace string
	// Image is that of nadra-node. PullSecrets are those that it needs, in
	// SecretsNamespace.
	Image            string
	PullSecrets      []string
	SecretsNamespace string
	// Timeout is how long one may take until it is ready.
	Timeout time.Duration
	// Owner has the canaries served by nadra or by Multus, as the value of the
	// label nadra.dev/owner; empty leaves it to their namespace.
	Owner string
}

// Plan says which canaries are run.
type Plan struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Source is where, for people: a cluster's context.
	Source   string        `json:"source,omitempty"`
	Networks []NetworkPlan `json:"networks"`
	// Pods and Addresses are how many all networks take together, while they run.
	Pods      int `json:"pods"`
	Addresses int `json:"addresses"`
	Devices   int `json:"devices"`

	Settings `json:"-"`
}

// NetworkPlan is how one network is tried.
type NetworkPlan struct {
	Network string   `json:"network"`
	Plugins []string `json:"plugins,omitempty"`
	IPAM    string   `json:"ipam,omitempty"`
	Pool    string   `json:"pool,omitempty"`
	// Skipped is why it is not tried; empty where it is.
	Skipped string `json:"skipped,omitempty"`
	Pods    []Pod  `json:"pods,omitempty"`
	// Addresses are how many the canaries of the network take together, and
	// Devices how many of its pool.
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

// NewPlan decides which canaries are run. The same input gives the same plan.
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

func (in *Input) network(nad *nadv1.NetworkAttachmentDefinition) NetworkPlan {
	ref := attachment.NetworkRef{Namespace: nad.Namespace, Name: nad.Name}
	out := NetworkPlan{Network: ref.String(), Pool: attachment.PoolOf(nad.Annotations)}
	parsed, err := attachment.ParseNetwork(nad)
	switch {
	case errors.Is(err, attachment.ErrNoConfig): // a file of the nodes has it
	case err != nil:
		out.Skipped = err.Error()
		return out
	}
	for _, p := range parsed.Plugins {
		out.Plugins = append(out.Plugins, p.Type)
		out.IPAM = cmp.Or(out.IPAM, p.IPAM)
	}
	out.facts = factsOf(parsed)
	if out.Skipped = out.facts.unfit(out.Pool); out.Skipped != "" {
		return out
	}
	nodes := in.Nodes
	if len(nodes) == 0 {
		nodes = in.offering(ref, out.Pool)
	}
	if len(nodes) == 0 {
		out.Skipped = "no node offers it: if Multus serves it, say where to try it (--node)"
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

func (in *Input) offering(ref attachment.NetworkRef, pool string) []string {
	if pool != "" {
		return in.Pools[pool]
	}
	return in.Offers[ref]
}

// podName is a DNS label that tells the network and is nobody else's.
func podName(ref attachment.NetworkRef, run, node string, i int) string {
	const hashed, longest = 10, 63
	sum := sha256.Sum256([]byte(strings.Join([]string{ref.String(), run, node, fmt.Sprint(i)}, "|")))
	readable := Name + "-" + strings.ReplaceAll(ref.Name, ".", "-")
	return strings.TrimRight(readable[:min(len(readable), longest-1-hashed)], "-") + "-" + hex.EncodeToString(sum[:])[:hashed]
}

// facts are what a plan and its judgement need to know of a configuration.
type facts struct {
	plugin, mode string
	// gateway says that a bridge is a gateway of its own on each node.
	gateway bool
	// fixed are addresses that every pod has, and asked says that each pod names
	// its own.
	fixed []string
	asked bool
	// device is what the plugin takes of the host for itself.
	device string
	// addresses are how many the IPAM plugin gives to a pod.
	addresses int
}

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
			IPAM             struct {
				Type      string `json:"type"`
				Addresses []struct {
					Address string `json:"address"`
				} `json:"addresses"`
				IPRanges []json.RawMessage `json:"ipRanges"`
			} `json:"ipam"`
		} `json:"plugins"`
	}
	// A value of a type that is not expected here is the plugin's affair.
	_ = json.Unmarshal(n.Conflist, &chain)
	for i, p := range chain.Plugins {
		if i == 0 {
			out.gateway = p.IsGateway || p.IsDefaultGateway
			out.device = cmp.Or(p.Device, p.PCIBusID, p.HWAddr, p.KernelPath)
		}
		switch p.IPAM.Type {
		case "":
		case "static":
			out.asked = out.asked || len(p.IPAM.Addresses) == 0
			for _, a := range p.IPAM.Addresses {
				out.fixed = append(out.fixed, a.Address)
			}
		case "host-local":
			out.addresses += max(len(n.Plugins[i].Ranges), 1)
		default:
			out.addresses += max(len(p.IPAM.IPRanges), 1)
		}
	}
	return out
}

// unfit says why a network cannot be tried without harm to those who use it.
func (f facts) unfit(pool string) string {
	switch {
	case len(f.fixed) > 0:
		return "every pod of it has address " + strings.Join(f.fixed, ", ") + ": a canary would take it from those that run"
	case f.asked:
		return "each pod of it asks for an address of its own: nobody knows one that is free for a canary"
	case f.plugin == "host-device" && pool == "" && f.device != "":
		return "it takes " + f.device + " of the host for itself: a canary would take it from the pod that has it"
	case f.mode == "passthru":
		return "in mode passthru its master serves one pod: a canary would be a second one"
	}
	return ""
}

// Unreachable says why two pods of the network cannot reach each other; empty
// where they can, and where nobody can know.
func (f facts) Unreachable(sameNode bool) string {
	switch {
	case f.plugin == "dummy":
		return "a dummy interface leads nowhere"
	case f.plugin == "ptp" && !sameNode:
		return "ptp ends at the node, which routes or does not"
	case f.plugin == "bridge" && f.gateway && !sameNode:
		return "the bridge is a gateway of its own on each node"
	case f.plugin == "macvlan" && f.mode == "private" && sameNode:
		return "in mode private the pods of a node do not see each other"
	}
	return ""
}

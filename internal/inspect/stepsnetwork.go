package inspect

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

const notAllowed = "you may not read %s, so nothing is known"

// asked is what the pod says itself.
func (c *chain) asked() Step {
	var asks []string
	for _, w := range c.wish.wants {
		one := refOf(w)
		if w.iface != "" {
			one += " as " + w.iface
		}
		switch {
		case w.unsure:
			one = fmt.Sprintf("claim %q, which may be for networks", w.entry.Name)
		case w.entry == nil:
			one += " by annotation"
		default:
			one += fmt.Sprintf(" by claim %q", w.entry.Name)
		}
		asks = append(asks, one)
	}
	said := strings.Join(asks, "; ")
	switch {
	case c.wish.bad != nil:
		return failed(c.wish.bad.Error(), OfManifest, "Correct the annotation. Neither Multus nor nadra's webhook can read it as it is.")
	case !c.wish.ours():
		return notUsed("the pod has neither the annotation nor a claim for networks")
	case c.pod.Spec.HostNetwork:
		return failed(said+"; but the pod uses the host's network, which gets no attachments", OfManifest,
			"Remove spec.hostNetwork, or the networks: nobody attaches anything to the host's network.")
	}
	return ok(said)
}

// network is the definition and what it says, if it can be read.
func (c *chain) network(w want) (n attachment.Network, found bool, err error) {
	ref, known := c.networkOf(w)
	nad := c.x.networks[ref]
	if !known || nad == nil {
		return n, false, nil
	}
	n, err = attachment.ParseNetwork(nad)
	return n, true, err
}

func (c *chain) definition(w want) Step {
	if w.network == nil {
		return notUsed("the request selects by other things than a network's name: which one it is, the allocation decides")
	}
	_, found, err := c.network(w)
	switch {
	case !found && c.x.unread[Networks]:
		return notUsed(fmt.Sprintf(notAllowed, Networks))
	case !found:
		return unlessAttached(w, failed(fmt.Sprintf("NetworkAttachmentDefinition %s does not exist", w.network), OfManifest,
			"Correct the network's name or namespace, or create the NetworkAttachmentDefinition."))
	case errors.Is(err, attachment.ErrNoConfig):
		return ok("exists; its configuration is a file of each node")
	case err != nil:
		return unlessAttached(w, failed(err.Error(), OfNetwork, "Correct spec.config of the NetworkAttachmentDefinition; the nodes take it up at once."))
	}
	return ok("exists, and can be read")
}

func (c *chain) plugins(w want) Step {
	n, found, err := c.network(w)
	switch {
	case !found, err != nil && !errors.Is(err, attachment.ErrNoConfig):
		return notReached()
	case err != nil:
		return notUsed("they are in the nodes' files")
	}
	var said []string
	for _, p := range n.Plugins {
		one := p.Type
		if p.Master != "" {
			one += " on " + p.Master
		}
		if p.Mode != "" {
			one += " (" + p.Mode + ")"
		}
		said = append(said, one)
	}
	return ok(strings.Join(said, ", then "))
}

func (c *chain) ipam(w want) Step {
	n, found, err := c.network(w)
	switch {
	case errors.Is(err, attachment.ErrNoConfig):
		return notUsed("it is in the nodes' files")
	case !found, err != nil:
		return notReached()
	}
	for _, p := range n.Plugins {
		if p.IPAM == "" {
			continue
		}
		said := p.IPAM
		for _, set := range p.Ranges {
			for _, r := range set {
				said += " " + r.Subnet
			}
		}
		return ok(said)
	}
	return notUsed("the network gives no addresses")
}

func (c *chain) class(w want) Step {
	name := w.request.class
	switch {
	case w.entry == nil:
		return notUsed("")
	case name == "", c.in.NoDRA:
		return notReached()
	case c.x.unread[Classes]:
		return notUsed(fmt.Sprintf(notAllowed, Classes))
	case c.x.classes[name] != nil:
		return ok(name)
	case w.result != nil:
		return ok(name + " was deleted since; the claim is allocated already")
	}
	do := "Correct deviceClassName in the claim's template, or create the class."
	if _, ours := attachment.ClassNetwork(name); ours {
		do = "Apply the DeviceClass that `kubectl nadra convert` writes beside the workload, or correct deviceClassName in the template."
	}
	return failed(fmt.Sprintf("DeviceClass %s does not exist", name), OfConversion, do)
}

// nodes says who could attach the network.
func (c *chain) nodes(w want) Step {
	ref, known := c.networkOf(w)
	switch {
	case !known:
		return notUsed("")
	case c.x.unread[Slices]:
		return notUsed(fmt.Sprintf(notAllowed, Slices))
	case c.in.NoDRA:
		return notReached()
	}
	nodes := c.offering(w, ref)
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	switch {
	case len(nodes) > 0:
		return ok("offered by " + strings.Join(nodes, ", ") + c.owned())
	case w.entry == nil && len(c.x.drivers) == 0:
		return notUsed("nadra runs nowhere")
	case w.result != nil:
		return ok("no node offers it any more; it was allocated before")
	case w.entry == nil:
		return notUsed("no node offers it")
	}
	return c.offeredByNone(w, ref)
}

// offering are the nodes with devices for a network: its own, or those of the
// resource pool that it draws from. Where another driver has the pool's devices,
// nodes offer the network itself.
func (c *chain) offering(w want, ref attachment.NetworkRef) []string {
	if n, found, err := c.network(w); found && err == nil && n.ResourceName != "" {
		return slices.Concat(c.x.pools[n.ResourceName], c.x.offers[ref])
	}
	return slices.Clone(c.x.offers[ref])
}

// offeredByNone finds why, as far as that is known outside of the nodes.
func (c *chain) offeredByNone(w want, ref attachment.NetworkRef) Step {
	n, found, err := c.network(w)
	if len(c.x.drivers) == 0 {
		return failed("no node has a ResourceSlice of "+v1alpha1.DriverName+": nadra's driver runs nowhere", OfCluster, noDriver)
	}
	if !found && !c.x.unread[Networks] || err != nil && !errors.Is(err, attachment.ErrNoConfig) {
		return notReached()
	}
	if n.ResourceName != "" {
		return failed("no node has a device of resource pool "+n.ResourceName+", from which it draws", OfNode,
			"The driver's log says which pools it has read and what is wrong with them: kubectl -n nadra logs -l app.kubernetes.io/name=nadra-node --tail=-1 | grep -i pool. "+
				"Devices that a device plugin has given to pods are withheld until these end.")
	}
	nodes := slicesOf(c.x.drivers)
	if events := c.withdrawn(ref); len(events) > 0 {
		var said []string
		for _, e := range events {
			said = append(said, e.Message)
		}
		return failed(strings.Join(said, "; "), OfPlugin, "Repair what the plugin names. The network is offered again by itself within seconds.")
	}
	return failed(fmt.Sprintf("none of the nodes with nadra's driver (%s) offers it", strings.Join(nodes, ", ")), OfNode,
		fmt.Sprintf("The driver's log says why, most often a plugin's binary or the master interface that is not there: "+
			"kubectl -n nadra logs -l app.kubernetes.io/name=nadra-node --tail=-1 | grep %s", ref))
}

func (c *chain) owned() string {
	var names []string
	for _, n := range c.in.Nodes {
		if n.Labels[v1alpha1.OwnerLabel] == v1alpha1.OwnerNadra {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	return "; nadra's nodes by label: " + strings.Join(names, ", ")
}

func slicesOf(set map[string]bool) []string {
	var out []string
	for s := range set {
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

package publish

import (
	"fmt"
	"slices"
	"sync"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
)

// View has the cluster's networks as this node sees them. Prepare resolves claims against
// it. Every refresh of the publisher replaces its content.
type View struct {
	mu    sync.RWMutex
	byRef map[attachment.NetworkRef]viewed
}

// viewed is a network in a View.
type viewed struct {
	*offer.Definition
	// unusable is why the node cannot attach the network, withheld why it does not publish
	// it. They are nil if it does.
	unusable, withheld error
	// offered is true if the node has published this definition before. If it is unusable now, it is lost.
	offered bool
	// reported is the reason in the latest HealthChange, "" if the network was published again.
	reported reason.Code
	// devices are what the names of its devices begin with, on this node and in slices that nodes share.
	devices []string
}

// has reports whether a device is one of the network's.
func (n viewed) has(device string) bool {
	return slices.ContainsFunc(n.devices, func(base string) bool { return offer.Belongs(device, base) })
}

// set replaces the content.
func (v *View) set(networks map[attachment.NetworkRef]viewed) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.byRef = networks
}

// Usable returns a network that this node can attach now. Answers of plugins to STATUS do
// not matter: an answer may be half a minute old, and the plugins' answer to ADD counts.
func (v *View) Usable(ref attachment.NetworkRef) (attachment.Network, error) {
	n, found := v.find(ref)
	if !found {
		return attachment.Network{}, reason.Errorf(reason.NetworkNotFound, "NetworkAttachmentDefinition %s does not exist: create it, or delete the pod", ref)
	}
	if n.unusable != nil {
		return attachment.Network{}, fmt.Errorf("NetworkAttachmentDefinition %s cannot be attached on this node: %w", ref, n.unusable)
	}
	return n.Network, nil
}

// Defined returns a network as its NAD defines it now, whether or not this node can attach it, or what is
// wrong with the NAD. It returns false if there is no such NAD.
func (v *View) Defined(ref attachment.NetworkRef) (n attachment.Network, found bool, err error) {
	d, found := v.find(ref)
	if !found {
		return n, false, nil
	}
	return d.Network, true, d.Err
}

// Withheld returns why a network is not published on this node, or nil if it is. It returns
// false if there is no such NAD.
func (v *View) Withheld(ref attachment.NetworkRef) (why error, found bool) {
	n, found := v.find(ref)
	return n.withheld, found
}

// PluginType returns the type of the first plugin of a network's chain. It returns false if
// there is no such NAD.
func (v *View) PluginType(ref attachment.NetworkRef) (pluginType string, found bool) {
	n, found := v.find(ref)
	if found && len(n.Network.Plugins) > 0 {
		pluginType = n.Network.Plugins[0].Type
	}
	return pluginType, found
}

func (v *View) find(ref attachment.NetworkRef) (viewed, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	n, found := v.byRef[ref]
	return n, found
}

// Suits returns an error if a claim may not attach a network with its allocated device. It refuses devices
// that are not among those that the network has here: each of them if the claim chooses the network, and if
// its DeviceClass names it, those that list another network with the same ID. The scheduler has allocated any
// other device for the network, which may have been at another place then. Suits accepts a network that is
// unknown or withheld, which Usable and decide are for.
func (v *View) Suits(device string, ref attachment.NetworkRef, ofClass bool) error {
	if ref == (attachment.NetworkRef{}) {
		return reason.Errorf(reason.ClaimInvalid, "neither its DeviceClass nor a config of the claim names a network: request the DeviceClass of a network, or add network to the config")
	}
	n, found := v.find(ref)
	if !found || n.has(device) {
		return nil
	}
	if !ofClass {
		return reason.Errorf(reason.ClaimInvalid, "the config names network %s, but the allocated device %q has other networks: request DeviceClass %s", ref, device, attachment.DeviceClassName(ref))
	}
	if other := v.sameID(device, ref); other != nil {
		return reason.Errorf(reason.DeviceMismatch, "the allocated device %q lists network %s, which has the same ID as network %s of the DeviceClass: "+
			"delete the pod, and correct the selector of a DeviceClass that nadra-controller does not keep: %s", device, other.Network.Ref, ref, n.ID.Selector())
	}
	return nil
}

// sameID returns another network with the same ID, to which a device belongs, or nil.
func (v *View) sameID(device string, ref attachment.NetworkRef) *offer.Definition {
	v.mu.RLock()
	defer v.mu.RUnlock()
	id := attachment.NetworkIDOf(ref)
	for other, n := range v.byRef {
		if other != ref && n.has(device) && attachment.NetworkIDOf(other) == id {
			return n.Definition
		}
	}
	return nil
}

// States of networks, in metrics.
const (
	stateOffered   = "offered"
	stateUnusable  = "unusable"              // the node cannot attach it
	stateLost      = "lost"                  // the same, and the node has published it before
	stateUnhealthy = metrics.DeviceUnhealthy // its plugins answer STATUS with an error
	stateNotOwned  = "not_owned"             // it would be published if the node were nadra's
)

// stateOf returns the state of a network in metrics. A new network whose plugins have not
// answered STATUS yet counts as offered.
func stateOf(withheld error) string {
	switch reason.Of(withheld) {
	case "", reason.StatusPending, reason.PoolDevice:
		return stateOffered
	case reason.NodeNotOwned:
		return stateNotOwned
	case reason.PluginUnhealthy:
		return stateUnhealthy
	}
	return stateUnusable
}

// Count adds the networks, by state. It leaves out those that draw from a resource pool:
// their devices are counted as functions.
func (v *View) Count(to map[metrics.Device]int) {
	of := func(state string) metrics.Device { return metrics.Device{Pool: slicewriter.Networks, State: state} }
	for _, state := range []string{stateOffered, stateUnusable, stateLost, stateUnhealthy, stateNotOwned} {
		to[of(state)] = 0
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, n := range v.byRef {
		switch {
		case n.Network.ResourceName != "":
		case n.unusable != nil && n.offered:
			to[of(stateLost)]++
		default:
			to[of(stateOf(n.withheld))]++
		}
	}
}

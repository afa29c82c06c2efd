package publish

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
)

// View has the cluster's networks as this node sees them. Prepare resolves claims against
// it. Every refresh of the publisher replaces its content.
type View struct {
	mu      sync.RWMutex
	byRef   map[attachment.NetworkRef]viewed
	devices deviceIndex
	// gone has the devices of deleted NADs, so that the error for a claim that still has
	// one can name the NAD.
	gone deviceIndex
}

// viewed is a network in a View.
type viewed struct {
	*definition
	// unusable is why the node cannot attach the network, withheld why it does not publish
	// it. They are nil if it does.
	unusable, withheld error
}

// set replaces the content.
func (v *View) set(networks map[attachment.NetworkRef]viewed) {
	devices := make(deviceIndex, len(networks))
	for ref, n := range networks {
		devices[lastPart(n.device)] = ref
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.gone == nil {
		v.gone = deviceIndex{}
	}
	for hash, ref := range v.devices {
		if _, there := devices[hash]; !there {
			v.gone[hash] = ref
		}
	}
	maps.DeleteFunc(v.gone, func(hash string, _ attachment.NetworkRef) bool { _, there := devices[hash]; return there })
	v.byRef, v.devices = networks, devices
}

// Usable returns a network that this node can attach now. Answers of plugins to STATUS do
// not matter: an answer may be half a minute old, and the plugins' answer to ADD counts.
func (v *View) Usable(ref attachment.NetworkRef) (attachment.Network, error) {
	n, found := v.find(ref)
	if !found {
		return attachment.Network{}, reason.Errorf(reason.NetworkNotFound, "NetworkAttachmentDefinition %s does not exist: create it, or remove the claim's request for it", ref)
	}
	if n.unusable != nil {
		return attachment.Network{}, fmt.Errorf("NetworkAttachmentDefinition %s cannot be attached on this node: %w", ref, n.unusable)
	}
	return n.network, nil
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
	if found && len(n.network.Plugins) > 0 {
		pluginType = n.network.Plugins[0].Type
	}
	return pluginType, found
}

func (v *View) find(ref attachment.NetworkRef) (viewed, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	n, found := v.byRef[ref]
	return n, found
}

// OfDevice returns the NAD of a device of this node.
func (v *View) OfDevice(pool, device string) (attachment.NetworkRef, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if ref, ok := v.devices.find(device); ok {
		return ref, nil
	}
	if ref, ok := v.gone.find(device); ok {
		return attachment.NetworkRef{}, reason.Errorf(reason.NetworkDeleted, "NetworkAttachmentDefinition %s was deleted after device %q of pool %q was allocated: "+
			"create it again, or delete the pod", ref, device, pool)
	}
	return attachment.NetworkRef{}, reason.Errorf(reason.NetworkDeleted, "the NetworkAttachmentDefinition of device %q of pool %q was deleted: "+
		"create it again, or delete the pod", device, pool)
}

// States of networks, in metrics.
const (
	stateOffered   = "offered"
	stateUnusable  = "unusable"              // the node cannot attach it
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
	for _, state := range []string{stateOffered, stateUnusable, stateUnhealthy, stateNotOwned} {
		to[of(state)] = 0
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, n := range v.byRef {
		if n.network.ResourceName == "" {
			to[of(stateOf(n.withheld))]++
		}
	}
}

// deviceIndex finds networks by the hash in the names of their devices. It finds the
// network of a claim however the device was published: shared, or as one of many copies.
type deviceIndex map[string]attachment.NetworkRef

func (x deviceIndex) find(device string) (attachment.NetworkRef, bool) {
	if ref, ok := x[lastPart(device)]; ok && attachment.DeviceName(ref) == device {
		return ref, true
	}
	base, number := device, lastPart(device)
	base = strings.TrimSuffix(base, "-"+number)
	i, err := strconv.Atoi(number)
	ref, ok := x[lastPart(base)]
	return ref, ok && err == nil && copyName(ref, i) == device
}

// lastPart returns the text after the last hyphen of a name: the hash of a device's name.
func lastPart(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }

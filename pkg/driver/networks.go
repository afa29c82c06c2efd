package driver

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// networks is the view of the cluster's NADs that claims are resolved against.
// It is rebuilt whole from the informer's cache and this node's facts, and then
// swapped in.
type networks struct {
	mu      sync.RWMutex
	byRef   map[attachment.NetworkRef]candidate
	devices deviceIndex
	// gone remembers devices of NADs that were deleted, so that the error for
	// a claim that still has one can name the NAD.
	gone deviceIndex
	// told is called after every change; nil for nobody.
	told func(map[attachment.NetworkRef]candidate)
}

// set replaces the view.
func (n *networks) set(candidates map[attachment.NetworkRef]candidate) {
	devices := make(deviceIndex, len(candidates))
	for ref, c := range candidates {
		devices[lastPart(c.device)] = ref
	}
	if n.told != nil {
		defer n.told(candidates)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone == nil {
		n.gone = deviceIndex{}
	}
	for hash, ref := range n.devices {
		if _, there := devices[hash]; !there {
			n.gone[hash] = ref
		}
	}
	maps.DeleteFunc(n.gone, func(hash string, _ attachment.NetworkRef) bool { _, there := devices[hash]; return there })
	n.byRef, n.devices = candidates, devices
}

// usable returns a network that this node can attach now. What its plugins say
// to STATUS does not matter here: see health.
func (n *networks) usable(ref attachment.NetworkRef) (attachment.Network, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	c, ok := n.byRef[ref]
	if !ok {
		return attachment.Network{}, reason.Errorf(reason.NetworkNotFound, "NetworkAttachmentDefinition %s does not exist: create it, or remove the claim's request for it", ref)
	}
	if c.unusable != nil {
		return attachment.Network{}, fmt.Errorf("NetworkAttachmentDefinition %s cannot be attached on this node: %w", ref, c.unusable)
	}
	return c.network, nil
}

// find returns a NAD as it was last looked at.
func (n *networks) find(ref attachment.NetworkRef) (candidate, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	c, there := n.byRef[ref]
	return c, there
}

// ofDevice returns the NAD that a device of this node stands for.
func (n *networks) ofDevice(pool, device string) (attachment.NetworkRef, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if ref, ok := n.devices.find(device); ok {
		return ref, nil
	}
	if ref, ok := n.gone.find(device); ok {
		return attachment.NetworkRef{}, reason.Errorf(reason.NetworkDeleted, "NetworkAttachmentDefinition %s was deleted after device %q of pool %q was allocated: "+
			"create it again, or delete the pod", ref, device, pool)
	}
	return attachment.NetworkRef{}, reason.Errorf(reason.NetworkDeleted, "no NetworkAttachmentDefinition stands behind device %q of pool %q any more: "+
		"create the deleted one again, or delete the pod", device, pool)
}

// deviceIndex finds networks by the hash in the names of their devices. A
// claim is understood whichever way its device was published: as one that is
// shared, or as one of many copies.
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

// lastPart is what follows the last hyphen of a name: the hash in a device's.
func lastPart(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }

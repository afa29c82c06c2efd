package driver

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// networks is the view of the cluster's NADs that claims are resolved against.
// It is rebuilt whole from the informer's cache and this node's facts, and then
// swapped in.
type networks struct {
	mu      sync.RWMutex
	byRef   map[attachment.NetworkRef]candidate
	devices map[string]attachment.NetworkRef
	// gone remembers devices of NADs that were deleted, so that the error for
	// a claim that still has one can name the NAD.
	gone map[string]attachment.NetworkRef
}

// candidate is a NAD and whether this node can attach it.
type candidate struct {
	network attachment.Network
	uid     types.UID
	// unusable says why not; nil when it can.
	unusable error
}

// set replaces the view. devices are all names under which each NAD may have
// been allocated, with or without consumable capacity.
func (n *networks) set(candidates map[attachment.NetworkRef]candidate, devices map[string]attachment.NetworkRef) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone == nil {
		n.gone = map[string]attachment.NetworkRef{}
	}
	maps.Copy(n.gone, n.devices)
	for name := range devices {
		delete(n.gone, name)
	}
	n.byRef, n.devices = candidates, devices
}

// usable returns a network that this node can attach now. What its plugins say
// to STATUS does not matter here: see health.
func (n *networks) usable(ref attachment.NetworkRef) (attachment.Network, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	c, ok := n.byRef[ref]
	if !ok {
		return attachment.Network{}, fmt.Errorf("NetworkAttachmentDefinition %s does not exist: create it, or remove the claim's request for it", ref)
	}
	if c.unusable != nil {
		return attachment.Network{}, fmt.Errorf("NetworkAttachmentDefinition %s cannot be attached on this node: %w", ref, c.unusable)
	}
	return c.network, nil
}

// ofDevice returns the NAD that a device of this node stands for.
func (n *networks) ofDevice(pool, device string) (attachment.NetworkRef, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if ref, ok := n.devices[device]; ok {
		return ref, nil
	}
	if ref, ok := n.gone[device]; ok {
		return attachment.NetworkRef{}, fmt.Errorf("NetworkAttachmentDefinition %s was deleted after device %q of pool %q was allocated: "+
			"create it again, or delete the pod", ref, device, pool)
	}
	return attachment.NetworkRef{}, fmt.Errorf("no NetworkAttachmentDefinition stands behind device %q of pool %q any more: "+
		"create the deleted one again, or delete the pod", device, pool)
}

// host is what a node offers to networks.
type host struct {
	links   map[string]link
	missing func(pluginTypes []string) []string
	binDirs []string
	// conf returns the node's configuration for a NAD that has none, and its file.
	conf func(nad string) (path string, config []byte, err error)
}

// check says why the network cannot be attached on this host; nil if it can.
func (h host) check(n attachment.Network) error {
	var pluginTypes []string
	for _, p := range n.Plugins {
		pluginTypes = append(pluginTypes, p.Type)
		if p.IPAM != "" {
			pluginTypes = append(pluginTypes, p.IPAM)
		}
		if p.Master == "" {
			continue
		}
		if _, ok := h.links[p.Master]; !ok {
			return fmt.Errorf("plugin %s: master: interface %q is not on the node: create it, or correct the NAD's master", p.Type, p.Master)
		}
	}
	slices.Sort(pluginTypes)
	if missing := h.missing(slices.Compact(pluginTypes)); len(missing) > 0 {
		return fmt.Errorf("plugin %s is not in %s: install it on the node, or correct the NAD's type",
			strings.Join(missing, ", "), strings.Join(h.binDirs, ", "))
	}
	return nil
}

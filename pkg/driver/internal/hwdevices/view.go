package hwdevices

import (
	"strings"
	"sync"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
)

// deviceKey is a device's name in a DRA pool.
type deviceKey struct{ pool, name string }

// View has the node's hardware devices. Prepare resolves claims against it. Every refresh of
// the publisher replaces its content, but devices that are gone stay, because claims may
// have them. The zero value is empty.
type View struct {
	mu      sync.RWMutex
	devices map[deviceKey]Device
}

// Set replaces the content. It adds devices under every name that a claim may have been
// allocated, with or without consumable capacity.
func (v *View) Set(devices []Device, copies int) {
	now := map[deviceKey]Device{}
	for _, d := range devices {
		now[deviceKey{d.DRAPool, d.Name}] = d
		if d.IsShared() {
			for i := range copies {
				now[deviceKey{d.DRAPool, offer.IndexedName(d.Name, i)}] = d
			}
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for key, d := range v.devices {
		if _, ok := now[key]; !ok {
			d.Gone = true
			now[key] = d
		}
	}
	v.devices = now
}

// Lookup returns a device of this node's DRA pools, whether it is offered now or not: an
// allocated claim is served while the function exists. It returns false for what was never a
// hardware device since the driver was started, such as a network's device. It does not wait
// for hardware to be read.
func (v *View) Lookup(pool, device string) (Device, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	d, ok := v.devices[deviceKey{pool, device}]
	return d, ok
}

// States of functions, in metrics.
const (
	stateOffered  = "offered"
	stateWithheld = "withheld"  // a device plugin has given it to a pod
	stateNoLink   = "link_down" // its link is down
	stateNotOwned = "not_owned" // it would be offered if the node were nadra's
)

// stateOf returns the state of a device in metrics.
func stateOf(withheld error) string {
	switch reason.Of(withheld) {
	case "":
		return stateOffered
	case reason.NodeNotOwned:
		return stateNotOwned
	case reason.LinkDown:
		return stateNoLink
	}
	return stateWithheld
}

// Count adds the devices, by state and the last part of the name of their DRA pool. The
// first part is the node's name.
func (v *View) Count(node string, owned bool, to map[metrics.Device]int) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for key, d := range v.devices {
		if d.Gone || key.name != d.Name { // one of the copies of a shared device
			continue
		}
		pool := strings.TrimPrefix(d.DRAPool, node+"/")
		for _, state := range []string{stateOffered, stateWithheld, stateNoLink, stateNotOwned} {
			to[metrics.Device{Pool: pool, State: state}] += 0
		}
		to[metrics.Device{Pool: pool, State: stateOf(decide(&d, owned))}]++
	}
}

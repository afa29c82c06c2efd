package driver

import (
	"slices"
	"sync"

	"github.com/nadra-dev/nadra/pkg/inventory"
	"github.com/nadra-dev/nadra/pkg/pools"
)

// hardwareDevice is a DRA device of a resource pool: one function that belongs
// to one claim at a time, or all functions of a shared pool, of which claims have
// a share each. It is a copy; its slices and maps are not to be changed.
type hardwareDevice struct {
	// DRAPool and Name identify the device in allocation results.
	DRAPool, Name string
	// Pool is the resource pool, with the resource's name, the additional
	// information and whether the topology is told.
	Pool pools.Pool
	// Selector is the one by which the functions belong to the pool: pods get
	// RDMA devices, vhost-net or a vDPA device if it says so.
	Selector pools.Selector
	// Functions are one, or those of a shared pool, sorted: a pod gets the
	// devices of all of them, as with the RDMA shared device plugin.
	Functions []inventory.Function
	// RDMAMode and VhostNet are the inventory's.
	RDMAMode, VhostNet string
	// Withheld says why the device is not offered to new claims; empty if it is.
	Withheld string
	// Gone says that the function, or its pool, is no more: what is known of it
	// is from before.
	Gone bool
}

// function is that of an exclusive device. A shared one has several or none.
func (d *hardwareDevice) function() *inventory.Function { return &d.Functions[0] }

// shared says that claims have a share of the device.
func (d *hardwareDevice) shared() bool { return d.Pool.DeviceType == pools.SharedRDMA }

// deviceKey is a device's name in a DRA pool.
type deviceKey struct{ pool, name string }

// hardware is the view of the node's hardware devices that claims are resolved
// against. It is made anew with every look and swapped in; that of devices which
// are no more stays, as claims may have them. The zero value is empty.
type hardware struct {
	mu      sync.RWMutex
	devices map[deviceKey]hardwareDevice
}

// set replaces the view. Devices are under every name that a claim may have
// been allocated, with or without consumable capacity.
func (h *hardware) set(devices []hardwareDevice, copies int) {
	view := map[deviceKey]hardwareDevice{}
	for _, d := range devices {
		view[deviceKey{d.DRAPool, d.Name}] = d
		if d.shared() {
			for i := range copies {
				view[deviceKey{d.DRAPool, indexedName(d.Name, i)}] = d
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, d := range h.devices {
		if _, ok := view[key]; !ok {
			d.Gone = true
			view[key] = d
		}
	}
	h.devices = view
}

// lookup returns what stands behind a device of this node's DRA pools, whether
// it is offered now or not: a claim that was allocated it is served while the
// function is there. ok is false for what was never a hardware device since the
// driver started, such as a network's device. It may be called at any time from
// any goroutine, and does not wait for hardware to be read.
func (h *hardware) lookup(pool, device string) (_ hardwareDevice, ok bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	d, ok := h.devices[deviceKey{pool, device}]
	return d, ok
}

// ofResource returns the devices of a resource pool that are there, sorted.
func (h *hardware) ofResource(resourceName string) []hardwareDevice {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var out []hardwareDevice
	for key, d := range h.devices {
		if d.Pool.ResourceName == resourceName && !d.Gone && key.name == d.Name {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, compareDevices)
	return out
}

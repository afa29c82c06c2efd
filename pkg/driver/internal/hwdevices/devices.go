package hwdevices

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/inventory"
	"github.com/nadra-dev/nadra/pkg/pools"
)

const (
	// withoutPF is the last part of the name of the DRA pool of functions that have no PF,
	// and of shared devices.
	withoutPF = "/functions"
	// ofPF is that of the pools of VFs and SFs, before the PF's address.
	ofPF = "/pf-"
)

// IsDRAPool reports whether a DRA pool of the node has devices of resource pools.
func IsDRAPool(node, pool string) bool {
	return strings.HasPrefix(pool, node+ofPF) || pool == node+withoutPF
}

// Device is a DRA device of a resource pool: one function that belongs to one claim at a
// time, or all functions of a shared pool, of which claims have a share each. It is a copy
// whose slices and maps must not be changed.
type Device struct {
	// DRAPool and Name identify the device in allocation results.
	DRAPool, Name string
	// Pool is the resource pool, with the resource's name, the additional information and
	// whether the topology is published.
	Pool pools.Pool
	// Selector is the one by which the functions belong to the pool. It determines whether
	// pods get RDMA devices, vhost-net or a vDPA device.
	Selector pools.Selector
	// Functions has one function, or those of a shared pool, sorted: a pod gets the devices
	// of all of them, as with the RDMA shared device plugin.
	Functions []inventory.Function
	// RDMAMode and VhostNet are the inventory's.
	RDMAMode, VhostNet string
	// UsedBy is the pod to which a device plugin has given the function, or "".
	UsedBy string
	// Gone is true if the function, or its pool, does not exist any more. Everything else is
	// from before.
	Gone bool
}

// Function returns the function of an exclusive device. A shared one has several.
func (d *Device) Function() *inventory.Function { return &d.Functions[0] }

// IsShared reports whether claims have a share of the device.
func (d *Device) IsShared() bool { return d.Pool.DeviceType == pools.SharedRDMA }

// devicesOf makes the devices of assigned functions, sorted by DRA pool and place in it.
// Each PF's functions are a DRA pool of their own: when their number changes, or the PF's
// link, no slice of another PF is written again.
func devicesOf(node string, host inventory.Inventory, list []pools.Pool, assigned []pools.Assignment) []Device {
	var out []Device
	shared := map[int]int{} // places in out, by pool
	for _, a := range assigned {
		f, pool := host.Functions[a.Function], list[a.Pool]
		if place, ok := shared[a.Pool]; ok {
			out[place].Functions = append(out[place].Functions, f)
			continue
		}
		d := Device{
			DRAPool: node + withoutPF, Name: functionName(&f), Pool: pool, Selector: pool.Selectors[a.Selector],
			Functions: []inventory.Function{f}, RDMAMode: host.RDMAMode, VhostNet: host.VhostNet,
		}
		switch {
		case d.IsShared():
			d.Name = sharedName(pool.ResourceName)
			shared[a.Pool] = len(out)
		case f.PF != nil:
			d.DRAPool = node + ofPF + attachment.Label(f.PF.PCIAddress)
		}
		out = append(out, d)
	}
	slices.SortFunc(out, compareDevices)
	return out
}

// compareDevices orders by DRA pool, kind, index of the function, and name.
func compareDevices(a, b Device) int {
	return cmp.Or(
		cmp.Compare(a.DRAPool, b.DRAPool),
		cmp.Compare(a.slot(), b.slot()),
		cmp.Compare(a.Function().Index, b.Function().Index),
		cmp.Compare(a.Name, b.Name))
}

// slot groups the functions of a PF by their numbers, so that each stays in its slice when
// others come and go. Slots sort as text.
func (d *Device) slot() string {
	f := d.Function()
	if f.PF == nil || f.Index < 0 || d.IsShared() {
		return ""
	}
	return fmt.Sprintf("%s %08d", f.Kind, f.Index/sliceLimit)
}

// functionName returns, for example, pci-0000-3b-02-1 or sf-mlx5-core-sf-4: readable, and
// the same for as long as the function is in its slot.
func functionName(f *inventory.Function) string {
	if f.Kind == inventory.KindSF {
		return "sf-" + attachment.Label(f.ID)
	}
	return "pci-" + attachment.Label(f.ID)
}

// sharedName returns, for example, rdma-hca-shared-devices-a-1f3c5a07. The names of two
// resources may differ only in the case of letters and in punctuation, so it has a hash.
func sharedName(resourceName string) string {
	sum := sha256.Sum256([]byte(resourceName))
	const most = 63 - len("-") - 8
	readable := attachment.Label(resourceName)
	return strings.TrimRight(readable[:min(len(readable), most)], "-") + "-" + hex.EncodeToString(sum[:4])
}

// markUsed marks the devices that a device plugin has given to a pod, by the functions'
// IDs.
func markUsed(devices []Device, used map[string]string) {
	for i := range devices {
		if d := &devices[i]; !d.IsShared() {
			d.UsedBy = used[d.Function().ID]
		}
	}
}

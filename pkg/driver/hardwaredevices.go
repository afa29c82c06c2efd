package driver

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/inventory"
	"github.com/nadra-dev/nadra/pkg/pools"
)

const (
	// withoutPF is the last part of the name of the DRA pool of functions that
	// have no PF, and of shared devices.
	withoutPF = "/functions"
	// ofPF is that of the pools of VFs and SFs, before the PF's address.
	ofPF = "/pf-"
)

// hardwareDevices makes the devices of assigned functions, sorted by DRA pool
// and place in it. Each PF's functions are a DRA pool of their own: when their
// number changes, or the PF's link, no slice of another is written anew.
func hardwareDevices(node string, host inventory.Inventory, list []pools.Pool, assigned []pools.Assignment) []hardwareDevice {
	var out []hardwareDevice
	shared := map[int]int{} // places in out, by pool
	for _, a := range assigned {
		f, pool := host.Functions[a.Function], list[a.Pool]
		if place, ok := shared[a.Pool]; ok {
			out[place].Functions = append(out[place].Functions, f)
			continue
		}
		d := hardwareDevice{
			DRAPool: node + withoutPF, Name: functionName(&f), Pool: pool, Selector: pool.Selectors[a.Selector],
			Functions: []inventory.Function{f}, RDMAMode: host.RDMAMode, VhostNet: host.VhostNet,
		}
		switch {
		case d.shared():
			d.Name = sharedName(pool.ResourceName)
			shared[a.Pool] = len(out)
		case f.PF != nil:
			d.DRAPool = node + ofPF + label(f.PF.PCIAddress)
		}
		out = append(out, d)
	}
	slices.SortFunc(out, compareDevices)
	return out
}

// compareDevices orders by DRA pool, kind, index of the function, and name.
func compareDevices(a, b hardwareDevice) int {
	return cmp.Or(
		cmp.Compare(a.DRAPool, b.DRAPool),
		cmp.Compare(a.slot(), b.slot()),
		cmp.Compare(a.function().Index, b.function().Index),
		cmp.Compare(a.Name, b.Name))
}

// slot groups the functions of a PF by their numbers, so that each stays in its
// slice whatever comes and goes around it. Slots sort as text.
func (d *hardwareDevice) slot() string {
	f := d.function()
	if f.PF == nil || f.Index < 0 || d.shared() {
		return ""
	}
	return fmt.Sprintf("%s %08d", f.Kind, f.Index/hardwareSliceLimit)
}

// functionName is pci-0000-3b-02-1, or sf-mlx5-core-sf-4: readable, and the same
// for as long as the function is in its slot.
func functionName(f *inventory.Function) string {
	if f.Kind == inventory.KindSF {
		return "sf-" + label(f.ID)
	}
	return "pci-" + label(f.ID)
}

// sharedName is e.g. rdma-hca-shared-devices-a-1f3c5a07. Names of resources may
// differ in letters' case and punctuation only.
func sharedName(resourceName string) string {
	sum := sha256.Sum256([]byte(resourceName))
	const most = 63 - len("-") - 8
	readable := label(resourceName)
	return strings.TrimRight(readable[:min(len(readable), most)], "-") + "-" + hex.EncodeToString(sum[:4])
}

// label is a name as a part of a DNS label.
func label(name string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name)), "-")
}

// linkDown says in words that the function has no link; empty where it has one
// or it is not known. A function that is given away whole is set up by whoever
// gets it: only one that is set up and has no carrier is without a link.
func linkDown(f *inventory.Function) string {
	if f.PF != nil {
		if f.PF.Link == inventory.LinkDown {
			return fmt.Sprintf("the link of its PF %s (%s) is down", f.PF.Name, f.PF.PCIAddress)
		}
		return ""
	}
	for _, n := range f.Netdevs {
		if n.Up && n.Link == inventory.LinkDown {
			return fmt.Sprintf("its link %s is down", n.Name)
		}
	}
	return ""
}

// withholdUsed marks the devices that a device plugin has given to a pod, by the
// functions' IDs.
func withholdUsed(devices []hardwareDevice, used map[string]string) {
	for i := range devices {
		d := &devices[i]
		if pod, ok := used[d.function().ID]; ok && !d.shared() {
			d.Withheld = "a device plugin has given it to pod " + pod
		}
	}
}

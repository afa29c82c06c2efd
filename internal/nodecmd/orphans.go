package nodecmd

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/nadra-dev/nadra/internal/probe"
)

// owner is the owner of a cache of libcni.
type owner string

// The owners.
const (
	ownerNadra   owner = "nadra"
	ownerMultus  owner = "Multus"
	ownerRuntime owner = "the container runtime"
)

// defaultInterface is the interface of the cluster's default network in every pod.
const defaultInterface = "eth0"

// nodeFacts describe a node. They are read in this order: files, then namespaces and the
// checkpoint, then the runtime's sandboxes. So the file of a sandbox that was created
// meanwhile is young, and that of a sandbox that ended is gone.
type nodeFacts struct {
	Attachments []cacheEntry
	Notes       []note
	Leases      []lease
	VFs         []probe.VF

	// Held are the sandboxes for which nadra's checkpoint has a record or a pending
	// DEL: the driver takes care of them.
	Held map[string]bool
	// HeldVFs are the PCI addresses in the checkpoint.
	HeldVFs map[string]bool
	// DriverRuns is true if nadra's driver runs, and takes care of its cache.
	DriverRuns bool
	// InUse are the addresses of all network namespaces of the node.
	InUse map[netip.Addr]bool
	// Incomplete explains why InUse is incomplete; empty if it is complete.
	Incomplete string
	// Sandboxes are the IDs of the container runtime's sandboxes.
	Sandboxes map[string]bool
}

// cacheEntry is an entry of libcni's cache.
type cacheEntry struct {
	Owner                     owner
	File, Network, ID, IfName string
	Pod                       string
	Age                       time.Duration
	// NetNS is true if its network namespace exists.
	NetNS bool
	// Device is the PCI address in its configuration, if any.
	Device string
}

// note is Multus' own file of a sandbox.
type note struct {
	File, ID string
	Age      time.Duration
}

// lease is an address that host-local assigned.
type lease struct {
	File, ID, IfName string
	// Dir is the directory of the network.
	Dir     string
	Address netip.Addr
	Age     time.Duration
}

// decide returns the orphans. kept counts what is kept although the runtime does not know
// its sandbox.
func decide(f nodeFacts, o CleanupOptions) (orphans []probe.Orphan, kept int) {
	d := decision{nodeFacts: f, CleanupOptions: o, attached: map[string]bool{}, secondary: map[string]bool{}}
	for _, a := range f.Attachments {
		if a.NetNS {
			d.attached[a.ID] = true
		}
		if a.Owner != ownerRuntime && a.IfName != defaultInterface {
			d.secondary[a.Network] = true
		}
	}
	d.caches()
	d.notes()
	d.leases()
	d.functions()
	probe.SortOrphans(d.orphans)
	return d.orphans, d.kept
}

// decision collects the orphans of a node.
type decision struct {
	nodeFacts
	CleanupOptions
	// attached are the sandboxes whose network namespace exists.
	attached map[string]bool
	// secondary are the CNI networks that nadra or Multus attached on the node.
	secondary map[string]bool

	orphans []probe.Orphan
	kept    int
}

// gone reports whether nothing indicates that a sandbox exists. If the runtime does not
// know it and something else indicates it, gone counts it as kept.
func (d *decision) gone(id string, age time.Duration) bool {
	switch {
	case id == "" || d.Sandboxes[id]:
		return false
	case d.Held[id], d.attached[id], age < d.OlderThan:
		d.kept++
		return false
	}
	return true
}

const unknown = "the container runtime has no such sandbox"

// caches judges attachments in caches of libcni.
func (d *decision) caches() {
	for _, a := range d.Attachments {
		if !d.gone(a.ID, a.Age) {
			continue
		}
		o := probe.Orphan{
			Kind: probe.OrphanCNICache, Object: a.File, Network: a.Network, Address: a.IfName, Pod: a.Pod, Sandbox: a.ID,
			Why: unknown + ", and its network namespace is gone", Action: probe.ActionDEL,
		}
		switch {
		case a.Owner == ownerNadra && d.DriverRuns:
			o.Action, o.Why = probe.ActionNone, o.Why+"; nadra's driver retries its DEL every 30 s: read its log"
		case (a.Owner == ownerRuntime || a.IfName == defaultInterface) && !d.AllCNI:
			o.Action, o.Why = probe.ActionNone, o.Why+"; it belongs to the cluster's default network: free it with --all-cni"
		}
		d.orphans = append(d.orphans, o)
	}
}

// notes judges Multus' own files.
func (d *decision) notes() {
	for _, n := range d.Notes {
		if d.gone(n.ID, n.Age) {
			d.orphans = append(d.orphans, probe.Orphan{Kind: probe.OrphanMultusCache, Object: n.File, Sandbox: n.ID, Why: unknown, Action: probe.ActionDelete})
		}
	}
}

// leases judges addresses of host-local. An address is an orphan only if no network
// namespace of the node has it.
func (d *decision) leases() {
	for _, l := range d.Leases {
		why := unknown
		switch {
		case l.ID == "" && l.Age >= d.OlderThan:
			// host-local was killed between creating the file and writing it. It holds
			// its lock meanwhile, and so does releaseLease.
			why = "its file is empty: host-local was killed while it reserved the address"
		case !d.gone(l.ID, l.Age):
			continue
		}
		network := path.Base(l.Dir)
		o := probe.Orphan{
			Kind: probe.OrphanHostLocal, Object: l.File, Network: network, Address: l.Address.String(), Sandbox: l.ID,
			Why: why + ", and no network namespace has the address", Action: probe.ActionRelease,
		}
		switch {
		case d.Incomplete != "":
			o.Action, o.Why = probe.ActionNone, why+"; it is unknown whether the address is in use: "+d.Incomplete
		case d.InUse[l.Address]:
			d.kept++
			continue
		case !slices.Contains(d.NetworkDirs, l.Dir) && !d.secondary[network] && !d.AllCNI:
			o.Action, o.Why = probe.ActionNone, o.Why+"; no NetworkAttachmentDefinition has this network: free it with --all-cni"
		}
		d.orphans = append(d.orphans, o)
	}
}

// functions reports virtual functions with settings of a pod. It frees none: the settings
// may be an administrator's.
func (d *decision) functions() {
	for _, vf := range d.VFs {
		left := podSettings(vf)
		held := d.HeldVFs[vf.PCI] || slices.ContainsFunc(d.Attachments, func(a cacheEntry) bool {
			return a.Device == vf.PCI && (d.Sandboxes[a.ID] || d.Held[a.ID] || a.NetNS)
		})
		if len(left) == 0 || held {
			continue
		}
		d.orphans = append(d.orphans, probe.Orphan{
			Kind: probe.OrphanVF, Object: vf.PCI, Address: fmt.Sprintf("%s vf %d", vf.PF, vf.Index), Action: probe.ActionNone,
			Why: "it has " + strings.Join(left, ", ") + ", and nothing on the node uses it: unless an administrator set that, reset it with ip link set " +
				fmt.Sprintf("%s vf %d", vf.PF, vf.Index),
		})
	}
}

// podSettings returns the settings that are not a function's defaults. It ignores the
// hardware address, which drivers assign to every function.
func podSettings(vf probe.VF) []string {
	var out []string
	if vf.VLAN != 0 {
		out = append(out, fmt.Sprintf("vlan %d", vf.VLAN))
	}
	if vf.MinRate != 0 || vf.MaxRate != 0 {
		out = append(out, fmt.Sprintf("min_tx_rate %d max_tx_rate %d", vf.MinRate, vf.MaxRate))
	}
	if vf.LinkState == "enable" || vf.LinkState == "disable" {
		out = append(out, "state "+vf.LinkState)
	}
	return out
}

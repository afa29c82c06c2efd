package orphan

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/nadra-dev/nadra/internal/probe"
)

// Owner is the owner of a cache of libcni.
type Owner string

// The owners.
const (
	Nadra   Owner = "nadra"
	Multus  Owner = "Multus"
	Runtime Owner = "the container runtime"
)

// defaultInterface is the interface of the cluster's default network in every pod.
const defaultInterface = "eth0"

// NodeFacts describe a node. They are read in this order: files, then namespaces and the
// checkpoint, then the runtime's sandboxes. So the file of a sandbox that was created
// meanwhile is young, and that of a sandbox that ended is gone.
type NodeFacts struct {
	Attachments []Attachment
	Notes       []Note
	Leases      []Lease
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

// Attachment is an entry of libcni's cache.
type Attachment struct {
	Owner                     Owner
	File, Network, ID, IfName string
	Pod                       string
	Age                       time.Duration
	// NetNS is true if its network namespace exists.
	NetNS bool
	// Device is the PCI address in its configuration, if any.
	Device string
}

// Note is Multus' own file of a sandbox.
type Note struct {
	File, ID string
	Age      time.Duration
}

// Lease is an address that host-local assigned.
type Lease struct {
	File, ID, IfName string
	// Dir is the directory of the network.
	Dir     string
	Address netip.Addr
	Age     time.Duration
}

// NodePolicy limits what may be freed.
type NodePolicy struct {
	// OlderThan is the minimum age of an orphan: the runtime does not list a sandbox
	// that is just being created.
	OlderThan time.Duration
	// Dirs are host-local's directories of the networks of
	// NetworkAttachmentDefinitions.
	Dirs []string
	// AllCNI also frees leftovers of the cluster's default network.
	AllCNI bool
}

// Decide returns the orphans. kept counts what is kept although the runtime does not know
// its sandbox.
func Decide(f NodeFacts, p NodePolicy) (orphans []Orphan, kept int) {
	d := decision{NodeFacts: f, NodePolicy: p, attached: map[string]bool{}, secondary: map[string]bool{}}
	for _, a := range f.Attachments {
		if a.NetNS {
			d.attached[a.ID] = true
		}
		if a.Owner != Runtime && a.IfName != defaultInterface {
			d.secondary[a.Network] = true
		}
	}
	d.caches()
	d.notes()
	d.leases()
	d.functions()
	Sort(d.orphans)
	return d.orphans, d.kept
}

// decision collects the orphans of a node.
type decision struct {
	NodeFacts
	NodePolicy
	// attached are the sandboxes whose network namespace exists.
	attached map[string]bool
	// secondary are the CNI networks that nadra or Multus attached on the node.
	secondary map[string]bool

	orphans []Orphan
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
		o := Orphan{
			Kind: CNICache, Object: a.File, Network: a.Network, Address: a.IfName, Pod: a.Pod, Sandbox: a.ID,
			Why: unknown + ", and its network namespace is gone", Action: DEL,
		}
		switch {
		case a.Owner == Nadra && d.DriverRuns:
			o.Action, o.Why = None, o.Why+"; nadra's driver retries its DEL every 30 s: read its log"
		case (a.Owner == Runtime || a.IfName == defaultInterface) && !d.AllCNI:
			o.Action, o.Why = None, o.Why+"; it belongs to the cluster's default network: free it with --all-cni"
		}
		d.orphans = append(d.orphans, o)
	}
}

// notes judges Multus' own files.
func (d *decision) notes() {
	for _, n := range d.Notes {
		if d.gone(n.ID, n.Age) {
			d.orphans = append(d.orphans, Orphan{Kind: MultusCache, Object: n.File, Sandbox: n.ID, Why: unknown, Action: Delete})
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
		o := Orphan{
			Kind: HostLocal, Object: l.File, Network: network, Address: l.Address.String(), Sandbox: l.ID,
			Why: why + ", and no network namespace has the address", Action: Release,
		}
		switch {
		case d.Incomplete != "":
			o.Action, o.Why = None, why+"; it is unknown whether the address is in use: "+d.Incomplete
		case d.InUse[l.Address]:
			d.kept++
			continue
		case !slices.Contains(d.Dirs, l.Dir) && !d.secondary[network] && !d.AllCNI:
			o.Action, o.Why = None, o.Why+"; no NetworkAttachmentDefinition has this network: free it with --all-cni"
		}
		d.orphans = append(d.orphans, o)
	}
}

// functions reports virtual functions with settings of a pod. It frees none: the settings
// may be an administrator's.
func (d *decision) functions() {
	for _, vf := range d.VFs {
		left := settingsOf(vf)
		held := d.HeldVFs[vf.PCI] || slices.ContainsFunc(d.Attachments, func(a Attachment) bool {
			return a.Device == vf.PCI && (d.Sandboxes[a.ID] || d.Held[a.ID] || a.NetNS)
		})
		if len(left) == 0 || held {
			continue
		}
		d.orphans = append(d.orphans, Orphan{
			Kind: VirtualFuncs, Object: vf.PCI, Address: fmt.Sprintf("%s vf %d", vf.PF, vf.Index), Action: None,
			Why: "it has " + strings.Join(left, ", ") + ", and nothing on the node uses it: unless an administrator set that, reset it with ip link set " +
				fmt.Sprintf("%s vf %d", vf.PF, vf.Index),
		})
	}
}

// settingsOf returns the settings that are not a function's defaults. It ignores the
// hardware address, which drivers assign to every function.
func settingsOf(vf probe.VF) []string {
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

package cleanup

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/nadra-dev/nadra/internal/probe"
)

// Owner is whose cache of libcni it is.
type Owner string

// The owners.
const (
	Nadra   Owner = "nadra"
	Multus  Owner = "Multus"
	Runtime Owner = "the container runtime"
)

// defaultInterface is that of the cluster's network in every pod.
const defaultInterface = "eth0"

// NodeFacts are what a node has. They are read in this order: files, then
// namespaces and the checkpoint, then the runtime's sandboxes. So a file of a
// sandbox that has begun meanwhile is young, and one that has ended is gone.
type NodeFacts struct {
	Attachments []Attachment
	Notes       []Note
	Leases      []Lease
	VFs         []probe.VF

	// Held are the sandboxes for which nadra's checkpoint has a record, or owes
	// a DEL: the driver cares for them.
	Held map[string]bool
	// HeldVFs are the PCI addresses that the checkpoint has.
	HeldVFs map[string]bool
	// DriverRuns says that nadra's driver is at work: its own cache is its.
	DriverRuns bool
	// InUse are the addresses of all network namespaces of the node.
	InUse map[netip.Addr]bool
	// Blind says why InUse is not all of them; empty when it is.
	Blind string
	// Sandboxes are the IDs that the container runtime knows.
	Sandboxes map[string]bool
}

// Attachment is an entry of libcni's cache.
type Attachment struct {
	Owner                     Owner
	File, Network, ID, IfName string
	Pod                       string
	Age                       time.Duration
	// NetNS says that its network namespace exists.
	NetNS bool
	// Device is the PCI address in its configuration, if any.
	Device string
}

// Note is Multus' own file about a sandbox.
type Note struct {
	File, ID string
	Age      time.Duration
}

// Lease is an address that host-local has given out.
type Lease struct {
	File, ID, IfName string
	// Dir is the directory of the network.
	Dir     string
	Address netip.Addr
	Age     time.Duration
}

// NodePolicy is what may be freed.
type NodePolicy struct {
	// OlderThan is the age from which something can be an orphan: a sandbox that
	// is just being made is not known to the runtime yet.
	OlderThan time.Duration
	// Dirs are those of host-local that networks of NetworkAttachmentDefinitions
	// have.
	Dirs []string
	// AllCNI has what the cluster's default network has left freed, too.
	AllCNI bool
}

// Decide says which of the facts are orphans, and how many are of sandboxes that
// the runtime does not know and are left alone all the same.
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

type decision struct {
	NodeFacts
	NodePolicy
	// attached are sandboxes of which a network namespace exists.
	attached map[string]bool
	// secondary are the CNI networks that nadra or Multus has attached here.
	secondary map[string]bool

	orphans []Orphan
	kept    int
}

// gone reports whether nothing speaks for a sandbox. What speaks for one that
// the runtime does not know is counted.
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
			o.Action, o.Why = None, o.Why+"; nadra's driver runs DEL every 30 s, and its log says what fails"
		case (a.Owner == Runtime || a.IfName == defaultInterface) && !d.AllCNI:
			o.Action, o.Why = None, o.Why+"; it is of the cluster's default network: --all-cni frees it"
		}
		d.orphans = append(d.orphans, o)
	}
}

func (d *decision) notes() {
	for _, n := range d.Notes {
		if d.gone(n.ID, n.Age) {
			d.orphans = append(d.orphans, Orphan{Kind: MultusCache, Object: n.File, Sandbox: n.ID, Why: unknown, Action: Delete})
		}
	}
}

// leases are orphans where, beside the sandbox, the address is nowhere on the
// node.
func (d *decision) leases() {
	for _, l := range d.Leases {
		why := unknown
		switch {
		case l.ID == "" && l.Age >= d.OlderThan:
			// host-local writes into the file after it has made it, and was ended in
			// between; it has its lock meanwhile, as has whoever frees it.
			why = "it is reserved for nobody: host-local was killed while it did that"
		case !d.gone(l.ID, l.Age):
			continue
		}
		network := path.Base(l.Dir)
		o := Orphan{
			Kind: HostLocal, Object: l.File, Network: network, Address: l.Address.String(), Sandbox: l.ID,
			Why: why + ", and no network namespace has the address", Action: Release,
		}
		switch {
		case d.Blind != "":
			o.Action, o.Why = None, why+"; whether the address is in use is not known: "+d.Blind
		case d.InUse[l.Address]:
			d.kept++
			continue
		case !slices.Contains(d.Dirs, l.Dir) && !d.secondary[network] && !d.AllCNI:
			o.Action, o.Why = None, o.Why+"; no NetworkAttachmentDefinition has this network: --all-cni frees it"
		}
		d.orphans = append(d.orphans, o)
	}
}

// functions are told only: settings may be an administrator's.
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
			Why: "it has " + strings.Join(left, ", ") + ", and nothing on the node holds it: if no administrator has set that, reset it by ip link set " +
				fmt.Sprintf("%s vf %d", vf.PF, vf.Index),
		})
	}
}

// settingsOf are those that a function does not have of itself. Its hardware
// address is none: drivers give one to every function.
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

package attachment

import (
	"cmp"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// IPAM is what nadra reads of the section "ipam" of a plugin's configuration. ipamPlugins says what its type means.
type IPAM struct {
	// Type is the name of the IPAM plugin's binary; empty means none.
	Type string `json:"type"`
	// Sets has the sets of ranges. An attachment takes one address from each set.
	Sets [][]Range `json:"-"`
	// Addresses has addresses that are no ranges, with prefix lengths.
	Addresses []struct {
		Address string `json:"address"`
	} `json:"addresses"`
	// Routes has the routes for the pod.
	Routes []route `json:"routes"`
	// DataDir is the directory of host-local's leases; empty means its default.
	DataDir string `json:"dataDir"`
	// Pool is the name of whereabouts' pool, if it has one.
	Pool string `json:"network_name"`
}

// Range is one range of addresses, as the configuration has it.
type Range struct {
	Subnet  string `json:"subnet"`
	Start   string `json:"rangeStart"`
	End     string `json:"rangeEnd"`
	Gateway string `json:"gateway"`
}

// route is a route that the configuration has.
type route struct {
	Dst string `json:"dst"`
}

// The IPAM plugins that need more than ranges: a reconciler, or a daemon.
const (
	Whereabouts = "whereabouts"
	DHCP        = "dhcp"
)

// IPAMPlugin is what nadra knows of a type of IPAM plugins.
type IPAMPlugin struct {
	// PerNode is set if each node gives the addresses of the ranges, without knowledge of other nodes: they
	// limit the attachments of a node, and two nodes may give the same address.
	PerNode bool
	// Fixed is set if the configuration, or the pod's request, has each address, with a prefix length.
	Fixed bool
	// AddTime and DelTime are the times that an ADD and a DEL wait by themselves, and some more. A plugin that
	// is ended earlier leaves its lock behind, which everybody waits for.
	AddTime, DelTime time.Duration
	// leases is the directory of the node that has the leases of each network, unless dataDir names another.
	leases string
	// sets reads the ranges. Those of a plugin without it are read in each form that is known.
	sets func(ipamKeys) [][]Range
}

// ipamKeys are the keys of the section.
type ipamKeys struct {
	IPAM
	Range             // host-local's, at the top level
	Ranges  [][]Range `json:"ranges"`
	ipRange           // whereabouts', at the top level
	IPRange []ipRange `json:"ipRanges"`
}

// ipRange is a range as whereabouts has it.
type ipRange struct {
	Range string `json:"range"`
}

// ipamPlugins has the IPAM plugins of which nadra knows more than the name. Add one here if its ranges count.
var ipamPlugins = map[string]IPAMPlugin{
	"host-local": {PerNode: true, leases: "/var/lib/cni/networks", sets: hostLocalSets},
	// It waits for its Lease for 2 minutes in ADD and for 1 in DEL (v0.8, pkg/types: AddTimeLimit, DelTimeLimit).
	// Its reconciler frees the addresses of running pods without network-status.
	Whereabouts: {AddTime: 2*time.Minute + 10*time.Second, DelTime: time.Minute + 10*time.Second, sets: whereaboutsSets},
	"static":    {Fixed: true},
}

// Plugin returns what nadra knows of the IPAM plugin.
func (i IPAM) Plugin() IPAMPlugin { return ipamPlugins[i.Type] }

// LeaseDir returns the directory of a node in which the leases of a CNI network are, or "" if they are in none.
func (i IPAM) LeaseDir(network string) string {
	if i.Plugin().leases == "" {
		return ""
	}
	return path.Join(cmp.Or(i.DataDir, i.Plugin().leases), network)
}

// Fixed returns the addresses that every pod gets.
func (i IPAM) Fixed() (out []string) {
	if i.Plugin().Fixed {
		for _, a := range i.Addresses {
			out = append(out, a.Address)
		}
	}
	return out
}

// Prefixes returns the subnets of the ranges, each once.
func (i IPAM) Prefixes() (out []netip.Prefix) {
	for _, r := range slices.Concat(i.Sets...) {
		if p, err := netip.ParsePrefix(r.Subnet); err == nil && !slices.Contains(out, p.Masked()) {
			out = append(out, p.Masked())
		}
	}
	return out
}

// ipam returns what the keys mean.
func (k ipamKeys) ipam() IPAM {
	out := k.IPAM
	if read := out.Plugin().sets; read != nil {
		out.Sets = read(k)
	} else {
		out.Sets = slices.Concat(hostLocalSets(k), whereaboutsSets(k))
	}
	return out
}

// hostLocalSets returns both forms of host-local's ranges. A range at the top level comes first, as a set
// of its own.
func hostLocalSets(k ipamKeys) [][]Range {
	if k.Subnet != "" {
		return append([][]Range{{k.Range}}, k.Ranges...)
	}
	return k.Ranges
}

// whereaboutsSets returns both forms of whereabouts' ranges, each of which is a set. A range may be written as
// first-last/bits.
func whereaboutsSets(k ipamKeys) (out [][]Range) {
	for _, one := range append([]ipRange{k.ipRange}, k.IPRange...) {
		if one.Range != "" {
			first, last, _ := strings.Cut(one.Range, "-")
			out = append(out, []Range{{Subnet: strings.TrimSpace(cmp.Or(last, first))}})
		}
	}
	return out
}

// CheckPrefixes refuses a requested address without a prefix length, with its field, if an IPAM plugin of
// the network's chain is static, which fails on it.
func (s Selection) CheckPrefixes(chain []Plugin) error {
	i := slices.IndexFunc(s.IPs, func(ip string) bool { return !strings.Contains(ip, "/") })
	if i < 0 || !slices.ContainsFunc(chain, func(p Plugin) bool { return p.IPAM.Plugin().Fixed }) {
		return nil
	}
	return reason.Errorf(reason.AddressConflict, "ips[%d]: Invalid value: %q: the IPAM plugin static of network %s needs a prefix length, e.g. 10.1.2.3/24", i, s.IPs[i], s.Network)
}

// UsesIPAM reports whether the attachment's chain has an IPAM plugin of this type.
func (a Attachment) UsesIPAM(ipamType string) bool {
	return slices.ContainsFunc(PluginsOf(a.Conflist), func(p Plugin) bool { return p.IPAM.Type == ipamType })
}

// Held is what an attachment has of its sandbox that the DEL of another one may take.
type Held struct {
	iface string
	pools []string // of whereabouts
}

// Held returns what the attachment has.
func (a Attachment) Held() Held { return Held{a.Interface, a.whereaboutsPools()} }

// MayRelease reports whether the DEL of an attachment may delete or release what another attachment
// in the same sandbox has: its interface, or an address. The DEL of whereabouts may release by the
// sandbox alone (v0.8), and so the first address that any network of the sandbox has in the pool.
func (h Held) MayRelease(other Held) bool {
	return h.iface == other.iface || slices.ContainsFunc(h.pools, func(p string) bool {
		return slices.ContainsFunc(other.pools, func(o string) bool { return p == o || p == anyPool || o == anyPool })
	})
}

// anyPool stands for a pool that the configuration does not show: whereabouts reads the rest of it
// from a file.
const anyPool = "*"

// whereaboutsPools returns the pools from which whereabouts gives an attachment its addresses: it has one for
// each subnet and network_name.
func (a Attachment) whereaboutsPools() (out []string) {
	for _, p := range PluginsOf(a.Conflist) {
		if p.IPAM.Type != Whereabouts {
			continue
		}
		for _, set := range p.IPAM.Sets {
			pool := anyPool
			if subnet, err := netip.ParsePrefix(set[0].Subnet); err == nil {
				pool = p.IPAM.Pool + " " + subnet.Masked().String()
			}
			out = append(out, pool)
		}
		if len(p.IPAM.Sets) == 0 {
			out = append(out, anyPool)
		}
	}
	return out
}

package attachment

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// Whereabouts is the type of an IPAM plugin whose reconciler frees the addresses of
// running pods without network-status.
const Whereabouts = "whereabouts"

// CheckPrefixes refuses a requested address without a prefix length, with its field, if an IPAM plugin of
// the network's chain is static, which fails on it.
func (s Selection) CheckPrefixes(chain []Plugin) error {
	i := slices.IndexFunc(s.IPs, func(ip string) bool { return !strings.Contains(ip, "/") })
	if i < 0 || !slices.ContainsFunc(chain, func(p Plugin) bool { return p.IPAM == "static" }) {
		return nil
	}
	return reason.Errorf(reason.AddressConflict, "ips[%d]: Invalid value: %q: the IPAM plugin static of network %s needs a prefix length, e.g. 10.1.2.3/24", i, s.IPs[i], s.Network)
}

// IPAMTypes returns the types of the IPAM plugins in the attachment's chain. It returns
// none for a configuration that is not valid JSON, whose plugins do not run.
func (a Attachment) IPAMTypes() []string {
	var list struct {
		Plugins []struct {
			IPAM struct {
				Type string `json:"type"`
			} `json:"ipam"`
		} `json:"plugins"`
	}
	if json.Unmarshal(a.Conflist, &list) != nil {
		return nil
	}
	var out []string
	for _, p := range list.Plugins {
		if p.IPAM.Type != "" {
			out = append(out, p.IPAM.Type)
		}
	}
	return out
}

// UsesIPAM reports whether the attachment's chain has an IPAM plugin of this type.
func (a Attachment) UsesIPAM(ipamType string) bool { return slices.Contains(a.IPAMTypes(), ipamType) }

// MayRelease reports whether the DEL of an attachment may delete or release what another attachment
// in the same sandbox has: its interface, or an address. The DEL of whereabouts may release by the
// sandbox alone (v0.8), and so the first address that any network of the sandbox has in the pool.
func (a Attachment) MayRelease(other Attachment) bool {
	if a.Interface == other.Interface {
		return true
	}
	pools, others := a.whereaboutsPools(), other.whereaboutsPools()
	return slices.ContainsFunc(pools, func(p string) bool {
		return slices.ContainsFunc(others, func(o string) bool { return p == o || p == anyPool || o == anyPool })
	})
}

// anyPool stands for a pool that the configuration does not show: whereabouts reads the rest of it
// from a file.
const anyPool = "*"

// whereaboutsPools returns the pools from which whereabouts gives an attachment its addresses.
func (a Attachment) whereaboutsPools() (out []string) {
	type ipRange struct {
		Range string `json:"range"`
	}
	type plugin struct {
		IPAM struct {
			Type    string `json:"type"`
			Network string `json:"network_name"`
			ipRange
			Ranges []ipRange `json:"ipRanges"`
		} `json:"ipam"`
	}
	var conf struct {
		plugin           // a configuration of one plugin, as other runtimes may have it
		Plugins []plugin `json:"plugins"`
	}
	if json.Unmarshal(a.Conflist, &conf) != nil {
		return nil // no plugin runs
	}
	for _, p := range append(conf.Plugins, conf.plugin) {
		if p.IPAM.Type != Whereabouts {
			continue
		}
		before := len(out)
		for _, one := range append(p.IPAM.Ranges, p.IPAM.ipRange) {
			if one.Range != "" {
				out = append(out, poolOf(p.IPAM.Network, one.Range))
			}
		}
		if len(out) == before {
			out = append(out, anyPool)
		}
	}
	return out
}

// poolOf returns the pool of a range, which may be written as first-last/bits: whereabouts has one for
// each subnet and network_name.
func poolOf(network, text string) string {
	_, last, _ := strings.Cut(text, "-")
	subnet, err := netip.ParsePrefix(strings.TrimSpace(cmp.Or(last, text)))
	if err != nil {
		return anyPool
	}
	return network + " " + subnet.Masked().String()
}

package cniexec

import (
	"net"
	"net/netip"

	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// MAC returns the hardware address of the interface with this name in the pod. If
// there is none, it returns the address of the first interface in the pod: some
// plugins report other names.
func MAC(result *types100.Result, ifName string) string {
	first := ""
	for _, i := range result.Interfaces {
		if i.Sandbox == "" {
			continue
		}
		if i.Name == ifName {
			return i.Mac
		}
		if first == "" {
			first = i.Mac
		}
	}
	return first
}

// Interface is what plugins have made of an interface in the pod.
type Interface struct {
	MAC string
	IPs []netip.Addr
}

// Interfaces returns the interfaces in the pod by name. IPv4 addresses in IPv6 form become IPv4.
func Interfaces(result *types100.Result) map[string]Interface {
	out := map[string]Interface{}
	for _, i := range result.Interfaces {
		if i.Sandbox != "" {
			out[i.Name] = Interface{MAC: i.Mac}
		}
	}
	for _, ip := range result.IPs {
		if i := ip.Interface; i != nil && *i >= 0 && *i < len(result.Interfaces) && result.Interfaces[*i].Sandbox != "" {
			if p, ok := prefixOf(ip.Address); ok {
				made := out[result.Interfaces[*i].Name]
				made.IPs = append(made.IPs, p.Addr())
				out[result.Interfaces[*i].Name] = made
			}
		}
	}
	return out
}

// Addresses returns the addresses on interfaces in the pod, and those without an
// interface, without duplicates. IPv4 addresses in IPv6 form become IPv4: the API
// accepts no others.
func Addresses(result *types100.Result) []netip.Prefix {
	var out []netip.Prefix
	seen := map[netip.Prefix]bool{}
	for _, ip := range result.IPs {
		if i := ip.Interface; i != nil && (*i < 0 || *i >= len(result.Interfaces) || result.Interfaces[*i].Sandbox == "") {
			continue
		}
		if p, ok := prefixOf(ip.Address); ok && !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out
}

func prefixOf(n net.IPNet) (netip.Prefix, bool) {
	addr, ok := netip.AddrFromSlice(n.IP)
	ones, bits := n.Mask.Size()
	if !ok || bits == 0 {
		return netip.Prefix{}, false
	}
	addr = addr.Unmap()
	if addr.Is4() && bits == 128 {
		ones -= 96
	}
	p := netip.PrefixFrom(addr, ones)
	return p, p.IsValid()
}

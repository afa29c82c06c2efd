package attachment

import (
	"math/big"
	"net/netip"
)

// MostPerNode returns the number of attachments that a network may have on a node: one, if a plugin's interface
// exists once, and otherwise those for which the node has addresses, of which each takes one from every set
// of ranges. It returns false if neither limits them, or the ranges cannot be counted.
func (n Network) MostPerNode() (count int64, ok bool) {
	for _, p := range n.Plugins {
		if p.Once && (!ok || count > 1) {
			count, ok = 1, true
		}
		if !p.IPAM.Plugin().PerNode {
			continue
		}
		for _, set := range p.IPAM.Sets {
			size, err := setSize(set)
			if err != nil {
				return 0, false
			}
			if !ok || size < count {
				count, ok = size, true
			}
		}
	}
	return count, ok
}

func setSize(set []Range) (int64, error) {
	var sum int64
	for _, r := range set {
		size, err := rangeSize(r)
		if err != nil {
			return 0, err
		}
		sum = min(sum+size, maxAddresses)
	}
	return sum, nil
}

// maxAddresses is more than any node uses. Larger ranges count as that many.
const maxAddresses = 1 << 40

// rangeSize counts a range as host-local does: from the first address after the network's
// to the last before IPv4's broadcast, unless the range sets others, and without the
// gateway, which is the first address unless the range sets another.
func rangeSize(r Range) (int64, error) {
	subnet, err := netip.ParsePrefix(r.Subnet)
	if err != nil {
		return 0, err
	}
	first := subnet.Masked().Addr().Next()
	last := lastAddress(subnet)
	gateway := first
	for _, set := range []struct {
		text string
		addr *netip.Addr
	}{{r.Start, &first}, {r.End, &last}, {r.Gateway, &gateway}} {
		if set.text == "" {
			continue
		}
		addr, err := netip.ParseAddr(set.text)
		if err != nil {
			return 0, err
		}
		*set.addr = addr.Unmap()
	}
	if last.Less(first) {
		return 0, nil
	}
	size := new(big.Int).Sub(numeric(last), numeric(first))
	if gateway.Less(first) || last.Less(gateway) {
		size.Add(size, big.NewInt(1))
	}
	if !size.IsInt64() || size.Int64() > maxAddresses {
		return maxAddresses, nil
	}
	return size.Int64(), nil
}

func lastAddress(subnet netip.Prefix) netip.Addr {
	bytes := subnet.Masked().Addr().AsSlice()
	for bit := subnet.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	if last.Is4() {
		return last.Prev()
	}
	return last
}

func numeric(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

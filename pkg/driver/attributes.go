package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"math/big"
	"net/netip"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/truncate"
)

// pciAttributes are the standard attributes of a PCI function; none for what
// sits on none.
type pciAttributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

// pciOf merges those of the interfaces that a network's plugins work on.
func pciOf(n attachment.Network, links map[string]link) pciAttributes {
	var out pciAttributes
	for _, p := range n.Plugins {
		if pci := links[p.Master].pci; out == nil {
			out = pci
		} else if len(pci) > 0 {
			out = maps.Clone(out)
			maps.Copy(out, pci)
		}
	}
	return out
}

// attributes are what a claim can select a network by. The values are those of
// the first plugin of the chain that has them.
func attributes(n attachment.Network, pci pciAttributes) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	out := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		attrNamespace: strAttr(n.Ref.Namespace),
		attrName:      strAttr(n.Ref.Name),
		attrHash:      strAttr(refHash(n.Ref)),
	}
	set := func(name resourceapi.QualifiedName, value string) {
		if _, ok := out[name]; !ok && value != "" {
			out[name] = strAttr(value)
		}
	}
	for _, p := range n.Plugins {
		set(attrPlugin, p.Type)
		set(attrIPAM, p.IPAM)
		set(attrMaster, p.Master)
		set(attrMode, p.Mode)
		if _, ok := out[attrVLAN]; !ok && p.VLAN != 0 {
			out[attrVLAN] = intAttr(int64(p.VLAN))
		}
		if len(p.Ranges) > 0 && len(p.Ranges[0]) > 0 {
			set(attrSubnet, p.Ranges[0][0].Subnet)
		}
	}
	maps.Copy(out, pci)
	return out
}

// refHash identifies a NAD where its name is too long for an attribute.
func refHash(ref attachment.NetworkRef) string {
	sum := sha256.Sum256([]byte(ref.String()))
	return hex.EncodeToString(sum[:8])
}

func strAttr(s string) resourceapi.DeviceAttribute {
	s = truncate.Text(s, maxAttribute)
	return resourceapi.DeviceAttribute{StringValue: &s}
}

func intAttr(i int64) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{IntValue: &i}
}

// addressCount is how many attachments host-local has addresses for: each
// takes one from every set of ranges. ok is false where host-local is not the
// IPAM or the ranges cannot be counted.
func addressCount(n attachment.Network) (count int64, ok bool) {
	for _, p := range n.Plugins {
		if p.IPAM != "host-local" {
			continue
		}
		for _, set := range p.Ranges {
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

func setSize(set []attachment.Range) (int64, error) {
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

// maxAddresses is more than any node uses; an IPv6 range is counted up to it.
const maxAddresses = 1 << 40

// rangeSize counts a range as host-local does: from the first address after
// the network's to the last before IPv4's broadcast, unless it says otherwise,
// and without the gateway, which is the first address unless it says otherwise.
func rangeSize(r attachment.Range) (int64, error) {
	subnet, err := netip.ParsePrefix(r.Subnet)
	if err != nil {
		return 0, err
	}
	first := subnet.Masked().Addr().Next()
	last := lastAddress(subnet)
	gateway := first
	for text, addr := range map[string]*netip.Addr{r.Start: &first, r.End: &last, r.Gateway: &gateway} {
		if text == "" {
			continue
		}
		if *addr, err = netip.ParseAddr(text); err != nil {
			return 0, err
		}
	}
	if last.Less(first) {
		return 0, nil
	}
	size := new(big.Int).Sub(number(last), number(first))
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

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

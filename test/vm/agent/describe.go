package main

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/test/vm/wire"
)

// describeNet describes the network namespace in which it runs.
func describeNet() (seen wire.Net, err error) {
	links, err := netlink.LinkList()
	if err != nil {
		return seen, fmt.Errorf("listing interfaces: %w", err)
	}
	names := map[int]string{}
	for _, link := range links {
		names[link.Attrs().Index] = link.Attrs().Name
	}
	// All at once, because the kernel lists the addresses of all interfaces for each
	// request.
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return seen, fmt.Errorf("listing addresses: %w", err)
	}
	rates, err := rates()
	if err != nil {
		return seen, err
	}
	for _, link := range links {
		described := describe(link, names)
		described.Rate = rates[link.Attrs().Index]
		for _, address := range addresses {
			if address.LinkIndex == link.Attrs().Index && !address.IP.IsLinkLocalUnicast() {
				described.Addresses = append(described.Addresses, address.IPNet.String())
			}
		}
		seen.Links = append(seen.Links, described)
	}
	if seen.Routes, err = routes(names); err != nil {
		return seen, err
	}
	rules, err := netlink.RuleList(netlink.FAMILY_V4)
	if err != nil {
		return seen, fmt.Errorf("listing rules: %w", err)
	}
	for _, rule := range rules {
		seen.Rules = append(seen.Rules, wire.Rule{From: text(rule.Src), Table: rule.Table})
	}
	devices, err := netlink.RdmaLinkList()
	if err != nil {
		return seen, fmt.Errorf("listing RDMA devices: %w", err)
	}
	for _, device := range devices {
		seen.RDMA = append(seen.RDMA, device.Attrs.Name)
	}
	return seen, nil
}

// rates returns the rates of token bucket filters, by the index of their interface.
func rates() (map[int]uint64, error) {
	disciplines, err := netlink.QdiscList(nil) // of all interfaces
	if err != nil {
		return nil, fmt.Errorf("listing queueing disciplines: %w", err)
	}
	const bits = 8
	out := map[int]uint64{}
	for _, d := range disciplines {
		if tbf, ok := d.(*netlink.Tbf); ok {
			out[d.Attrs().LinkIndex] = bits * tbf.Rate
		}
	}
	return out, nil
}

func describe(link netlink.Link, names map[int]string) wire.Link {
	attrs := link.Attrs()
	out := wire.Link{
		Name: attrs.Name, Kind: link.Type(), MAC: attrs.HardwareAddr.String(), Bus: busOf(attrs.Name),
		Up: attrs.Flags&net.FlagUp != 0, MTU: attrs.MTU, Master: names[attrs.MasterIndex],
	}
	for _, vf := range attrs.Vfs {
		out.VFs = append(out.VFs, wire.VF{
			Index: vf.ID, MAC: vf.Mac.String(), VLAN: vf.Vlan, Qos: vf.Qos,
			Trust: vf.Trust == 1, SpoofCheck: vf.Spoofchk, MinRate: int(vf.MinTxRate), MaxRate: int(vf.MaxTxRate),
		})
	}
	switch link := link.(type) {
	case *netlink.Vlan:
		out.VLAN = link.VlanId
	case *netlink.IPVlan:
		out.Mode = map[netlink.IPVlanMode]string{netlink.IPVLAN_MODE_L2: "l2", netlink.IPVLAN_MODE_L3: "l3", netlink.IPVLAN_MODE_L3S: "l3s"}[link.Mode]
	case *netlink.Macvlan:
		if link.Mode == netlink.MACVLAN_MODE_BRIDGE {
			out.Mode = "bridge"
		}
	case *netlink.Bond:
		out.Mode = link.Mode.String()
	case *netlink.Vrf:
		out.Table = link.Table
	}
	return out
}

func routes(names map[int]string) ([]wire.Route, error) {
	// The filter selects all tables; without one only the main table is listed.
	all, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	var out []wire.Route
	for _, r := range all {
		if r.Table == unix.RT_TABLE_LOCAL {
			continue
		}
		route := wire.Route{Destination: text(r.Dst), Link: names[r.LinkIndex], Table: r.Table}
		if r.Gw != nil {
			route.Gateway = r.Gw.String()
		}
		if r.Src != nil {
			route.Source = r.Src.String()
		}
		out = append(out, route)
	}
	return out, nil
}

func text(subnet *net.IPNet) string {
	if subnet == nil {
		return ""
	}
	return subnet.String()
}

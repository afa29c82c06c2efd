package nodecmd

import (
	"fmt"
	"net"
	"regexp"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/probe"
)

var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// namesOf returns the names of interfaces by their index.
func namesOf(links []netlink.Link) map[int]string {
	out := make(map[int]string, len(links))
	for _, l := range links {
		out[l.Attrs().Index] = l.Attrs().Name
	}
	return out
}

// describe returns an interface without its addresses and without what is below it.
func describe(l netlink.Link, names map[int]string) probe.Link {
	a := l.Attrs()
	out := probe.Link{
		Name: a.Name, Kind: l.Type(), MAC: a.HardwareAddr.String(), MTU: a.MTU,
		Up: a.Flags&net.FlagUp != 0, Running: a.RawFlags&unix.IFF_RUNNING != 0,
		Promiscuous: a.Promisc != 0, AllMulticast: a.RawFlags&unix.IFF_ALLMULTI != 0,
		TxQueue: max(a.TxQLen, 0), Master: names[a.MasterIndex],
	}
	switch l := l.(type) {
	case *netlink.Macvlan:
		out.Mode = macvlanModes[l.Mode]
	case *netlink.Macvtap:
		out.Mode = macvlanModes[l.Mode]
	case *netlink.IPVlan:
		out.Mode = ipvlanModes[l.Mode]
	case *netlink.Bond:
		out.Mode = l.Mode.String()
	case *netlink.Vlan:
		out.VLAN = l.VlanId
	}
	return out
}

// Names of modes, and of the types of routes, in which an ordinary route has none.
var (
	macvlanModes = map[netlink.MacvlanMode]string{
		netlink.MACVLAN_MODE_PRIVATE:  "private",
		netlink.MACVLAN_MODE_VEPA:     "vepa",
		netlink.MACVLAN_MODE_BRIDGE:   "bridge",
		netlink.MACVLAN_MODE_PASSTHRU: "passthru",
		netlink.MACVLAN_MODE_SOURCE:   "source",
	}
	ipvlanModes = map[netlink.IPVlanMode]string{
		netlink.IPVLAN_MODE_L2: "l2", netlink.IPVLAN_MODE_L3: "l3", netlink.IPVLAN_MODE_L3S: "l3s",
	}
	routeTypes = map[int]string{
		unix.RTN_UNSPEC: "", unix.RTN_UNICAST: "",
		unix.RTN_BLACKHOLE:   "blackhole",
		unix.RTN_UNREACHABLE: "unreachable",
		unix.RTN_PROHIBIT:    "prohibit",
		unix.RTN_THROW:       "throw",
		unix.RTN_MULTICAST:   "multicast",
	}
)

// addressesOf returns the addresses of an interface, sorted.
func addressesOf(index int, all []netlink.Addr) []string {
	var out []string
	for _, a := range all {
		if a.LinkIndex == index && a.IPNet != nil {
			out = append(out, a.IPNet.String())
		}
	}
	slices.Sort(out)
	return out
}

// routeOf returns a route for the report.
func routeOf(r netlink.Route, family int, names map[int]string) probe.Route {
	out := probe.Route{
		Table: r.Table, To: destination(r.Dst), IPv6: family == netlink.FAMILY_V6, Type: routeType(r.Type), Via: addressOf(r.Gw),
		Interface: names[r.LinkIndex], Source: addressOf(r.Src), Scope: r.Scope.String(), Protocol: r.Protocol.String(),
		Metric: r.Priority, MTU: r.MTU,
	}
	if via, ok := r.Via.(*netlink.Via); ok && via != nil {
		out.Via = addressOf(via.Addr)
	}
	for _, hop := range r.MultiPath {
		out.Hops = append(out.Hops, probe.NextHop{Via: addressOf(hop.Gw), Interface: names[hop.LinkIndex], Weight: hop.Hops + 1})
	}
	return out
}

// destination returns a route's prefix, or "default".
func destination(n *net.IPNet) string {
	if n == nil {
		return "default"
	}
	if ones, _ := n.Mask.Size(); ones == 0 && n.IP.IsUnspecified() {
		return "default"
	}
	return n.String()
}

// addressOf returns an address, or "" for none.
func addressOf(ip net.IP) string {
	if len(ip) == 0 {
		return ""
	}
	return ip.String()
}

// routeType returns the type's name, or "" for an ordinary route.
func routeType(t int) string {
	if name, known := routeTypes[t]; known {
		return name
	}
	return fmt.Sprint(t)
}

// ruleOf returns a rule for the report.
func ruleOf(r netlink.Rule, family int) probe.Rule {
	out := probe.Rule{
		IPv6: family == netlink.FAMILY_V6, Priority: r.Priority, Table: r.Table, Not: r.Invert,
		In: r.IifName, Out: r.OifName, Mark: r.Mark,
	}
	if r.Src != nil {
		out.From = r.Src.String()
	}
	if r.Dst != nil {
		out.To = r.Dst.String()
	}
	if r.Mask != nil && r.Mark != 0 {
		out.Mask = *r.Mask
	}
	return out
}

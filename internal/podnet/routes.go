package podnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

// families maps the names of families in records to the kernel's numbers.
var families = map[string]int{"IPv4": netlink.FAMILY_V4, "IPv6": netlink.FAMILY_V6}

// DefaultRoutes returns the namespace's default routes in the main table. Other tables
// belong to plugins such as sbr.
func (p *Reader) DefaultRoutes(path string) ([]checkpoint.Route, error) {
	h, err := p.open(path)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	var out []checkpoint.Route
	for _, family := range []string{"IPv4", "IPv6"} {
		found, err := listDefaultRoutes(h, families[family])
		if err != nil {
			return nil, fmt.Errorf("listing the routes in %s: %w", path, err)
		}
		for _, r := range found {
			route, err := routeOf(h, family, r)
			if err != nil {
				return nil, fmt.Errorf("reading a route in %s: %w", path, err)
			}
			out = append(out, route)
		}
	}
	return out, nil
}

func listDefaultRoutes(h *netlink.Handle, family int) ([]netlink.Route, error) {
	out, err := inventory.Whole(func() (out []netlink.Route, err error) {
		// Without a list of all routes, of which a pod may have any number.
		err = h.RouteListFilteredIter(family, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE, func(r netlink.Route) bool {
			if isDefault(r) {
				out = append(out, r)
			}
			return len(out) <= checkpoint.MaxRoutes
		})
		return out, err
	})
	if len(out) > checkpoint.MaxRoutes {
		return nil, reason.Errorf(reason.LimitExceeded, "there are more than %d default routes", checkpoint.MaxRoutes)
	}
	return out, err
}

// isDefault reports whether a route leads everywhere. Routes that reject packets are
// none.
func isDefault(r netlink.Route) bool {
	if r.Type != unix.RTN_UNICAST {
		return false
	}
	if r.Dst == nil {
		return true
	}
	ones, _ := r.Dst.Mask.Size()
	return ones == 0
}

// Reroute removes default routes from the namespace and then adds others. It ignores
// routes that are gone, or there, already. A gateway in one of the interface's networks counts
// as reachable, also after a plugin such as sbr has moved that network's route to another table.
func (p *Reader) Reroute(path string, take, give []checkpoint.Route) error {
	if len(take)+len(give) == 0 {
		return nil
	}
	h, err := p.open(path)
	if err != nil {
		return err
	}
	defer h.Close()
	for _, route := range take {
		r, err := kernelRoute(h, route)
		if err == nil {
			err = h.RouteDel(r)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("removing %s: %w", route, err)
		}
	}
	for _, route := range give {
		r, err := kernelRoute(h, route)
		if err == nil {
			err = addRoute(h, r)
		}
		if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) {
			err = reason.Errorf(reason.GatewayUnreachable, "%w: the gateway is in no network of the interface: correct the gateway, or the interface's addresses", err)
		}
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("adding %s: %w", route, err)
		}
	}
	return nil
}

// addRoute adds a route. If the kernel finds no way to the gateway, and the gateway is in a network
// of the interface, addRoute adds the route again as one whose gateway is on the link.
func addRoute(h *netlink.Handle, r *netlink.Route) error {
	err := h.RouteAdd(r)
	if r.Gw == nil || !errors.Is(err, unix.ENETUNREACH) && !errors.Is(err, unix.EHOSTUNREACH) {
		return err
	}
	link, linkErr := h.LinkByIndex(r.LinkIndex)
	if linkErr != nil {
		return linkErr
	}
	addrs, addrErr := inventory.Whole(func() ([]netlink.Addr, error) { return h.AddrList(link, r.Family) })
	if addrErr != nil || !slices.ContainsFunc(addrs, func(a netlink.Addr) bool { return a.Contains(r.Gw) }) {
		return errors.Join(err, addrErr)
	}
	r.Flags |= int(netlink.FLAG_ONLINK)
	return h.RouteAdd(r)
}

// routeOf converts a route of the kernel.
func routeOf(h *netlink.Handle, family string, r netlink.Route) (checkpoint.Route, error) {
	out := checkpoint.Route{
		Family: family, Metric: r.Priority, Protocol: int(r.Protocol), Scope: int(r.Scope), MTU: r.MTU,
	}
	if r.Src != nil {
		out.Source = r.Src.String()
	}
	hops := r.MultiPath
	if len(hops) == 0 {
		hops = []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw, Flags: r.Flags}}
	}
	for _, hop := range hops {
		link, err := h.LinkByIndex(hop.LinkIndex)
		if err != nil {
			return out, err
		}
		to := checkpoint.Hop{Interface: link.Attrs().Name, Weight: hop.Hops, OnLink: hop.Flags&int(netlink.FLAG_ONLINK) != 0}
		if hop.Gw != nil {
			to.Gateway = hop.Gw.String()
		}
		out.Hops = append(out.Hops, to)
	}
	return out, nil
}

// kernelRoute converts a route for the kernel. It fails if an interface is gone.
func kernelRoute(h *netlink.Handle, route checkpoint.Route) (*netlink.Route, error) {
	bits := 32
	if route.Family == "IPv6" {
		bits = 128
	}
	r := &netlink.Route{
		Dst:      &net.IPNet{IP: make(net.IP, bits/8), Mask: net.CIDRMask(0, bits)},
		Family:   families[route.Family],
		Table:    unix.RT_TABLE_MAIN,
		Priority: route.Metric, Src: address(route.Source), MTU: route.MTU,
		Protocol: netlink.RouteProtocol(route.Protocol), Scope: netlink.Scope(route.Scope),
	}
	for _, hop := range route.Hops {
		link, err := h.LinkByName(hop.Interface)
		if err != nil {
			return nil, fmt.Errorf("finding %s: %w", hop.Interface, err)
		}
		next := &netlink.NexthopInfo{LinkIndex: link.Attrs().Index, Gw: address(hop.Gateway), Hops: hop.Weight}
		if hop.OnLink {
			next.Flags = int(netlink.FLAG_ONLINK)
		}
		r.MultiPath = append(r.MultiPath, next)
	}
	if len(r.MultiPath) == 1 {
		hop := r.MultiPath[0]
		r.LinkIndex, r.Gw, r.Flags, r.MultiPath = hop.LinkIndex, hop.Gw, hop.Flags, nil
	}
	return r, nil
}

// address parses an address. It returns nil for an empty text.
func address(s string) net.IP {
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return nil
	}
	return addr.Unmap().AsSlice()
}

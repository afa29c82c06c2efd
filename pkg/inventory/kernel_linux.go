package inventory

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Link has the facts about an interface that netlink has and sysfs lacks.
type Link struct {
	// PermanentMAC is the card's original address, or empty if it is not known.
	PermanentMAC string
	AltNames     []string
	// DefaultRoute is true if the host's IPv4 default route uses the interface. As with
	// the device plugin, IPv6 does not count: a router's advertisement gives such a route
	// to every interface that is up.
	DefaultRoute bool
}

// Kernel has functions for facts that sysfs lacks. It has all functions or none, and each
// returns the zero value for a fact that is not known.
type Kernel struct {
	// Links returns the host's interfaces by name.
	Links func() (map[string]Link, error)
	// EswitchMode returns legacy or switchdev for a PF's PCI address.
	EswitchMode func(address string) string
	// DDPProfile returns the name of the package in a PF's parser.
	DDPProfile func(address string) string
	// RDMAMode returns RDMAShared or RDMAExclusive.
	RDMAMode func() string
	// RDMAParam reports whether devlink's enable_rdma is on for a device, by its bus (pci
	// or auxiliary) and name.
	RDMAParam func(bus, device string) bool
}

// HostKernel returns functions that use netlink in the network namespace of the process.
func HostKernel() Kernel {
	return Kernel{Links: hostLinks, EswitchMode: eswitchMode, DDPProfile: ddpProfile, RDMAMode: rdmaMode, RDMAParam: rdmaParam}
}

// noKernel knows nothing.
var noKernel = Kernel{
	Links:       func() (map[string]Link, error) { return nil, nil },
	EswitchMode: func(string) string { return "" },
	DDPProfile:  func(string) string { return "" },
	RDMAMode:    func() string { return "" },
	RDMAParam:   func(string, string) bool { return false },
}

// hostLinks lists the host's interfaces by name.
func hostLinks() (map[string]Link, error) {
	links, err := LinkList(nil)
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	routes, err := Whole(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	out := make(map[string]Link, len(links))
	byIndex := make(map[int]string, len(links))
	for _, l := range links {
		a := l.Attrs()
		byIndex[a.Index] = a.Name
		out[a.Name] = Link{PermanentMAC: a.PermHWAddr.String(), AltNames: a.AltNames}
	}
	for _, index := range defaultRoutes(routes) {
		if name, ok := byIndex[index]; ok {
			l := out[name]
			l.DefaultRoute = true
			out[name] = l
		}
	}
	return out, nil
}

// Whole repeats a listing that the kernel interrupted because something changed: the missing
// part might be the default route.
func Whole[T any](list func() ([]T, error)) ([]T, error) {
	const attempts = 10
	for i := 1; ; i++ {
		out, err := list()
		if i == attempts || !errors.Is(err, netlink.ErrDumpInterrupted) {
			return out, err
		}
	}
}

// LinkList lists the interfaces of a socket's network namespace, or of the process' own if sockets is nil. It
// leaves out the details of their VFs, which package netlink requests: for a card with some 200 VFs they do
// not fit into a message, and the kernel returns an error.
func LinkList(sockets map[int]*nl.SocketHandle) ([]netlink.Link, error) {
	const skipStatistics = 1 << 3 // RTEXT_FILTER_SKIP_STATS
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	request.Sockets = sockets
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	request.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(skipStatistics)))
	messages, err := Whole(func() ([][]byte, error) { return request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK) })
	if err != nil {
		return nil, err
	}
	out := make([]netlink.Link, 0, len(messages))
	for _, m := range messages {
		l, err := netlink.LinkDeserialize(nil, m)
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// defaultRoutes returns the indexes of interfaces that default routes use.
func defaultRoutes(routes []netlink.Route) []int {
	var out []int
	for _, r := range routes {
		if r.Dst != nil {
			if ones, _ := r.Dst.Mask.Size(); ones != 0 || !r.Dst.IP.IsUnspecified() {
				continue
			}
		}
		out = append(out, r.LinkIndex)
		for _, hop := range r.MultiPath {
			out = append(out, hop.LinkIndex)
		}
	}
	return out
}

// eswitchMode returns the eswitch mode of a PF, or "".
func eswitchMode(address string) string {
	device, err := netlink.DevLinkGetDeviceByName("pci", address)
	if err != nil {
		return ""
	}
	return device.Attrs.Eswitch.Mode
}

// ddpProfile returns the name of the package in a PF's parser, or "".
func ddpProfile(address string) string {
	info, err := netlink.DevlinkGetDeviceInfoByNameAsMap("pci", address)
	if err != nil {
		return ""
	}
	return info["fw.app.name"]
}

// rdmaMode returns the mode of the RDMA subsystem, or "".
func rdmaMode() string {
	mode, err := netlink.RdmaSystemGetNetnsMode()
	if err != nil {
		return "" // a kernel without RDMA, or an old one
	}
	return mode
}

// rdmaParam reports whether a device's parameter enable_rdma is on.
func rdmaParam(bus, device string) bool {
	param, err := netlink.DevlinkGetDeviceParamByName(bus, device, "enable_rdma")
	if err != nil {
		return false
	}
	for _, v := range param.Values {
		if on, ok := v.Data.(bool); ok && on {
			return true
		}
	}
	return false
}

package inventory

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Link is what netlink tells of an interface and sysfs does not.
type Link struct {
	// PermanentMAC is the address that the card came with; empty if not known.
	PermanentMAC string
	AltNames     []string
	// DefaultRoute says that the host's IPv4 default route goes through it. As
	// with the device plugin, IPv6 does not count: a router's announcement gives
	// such a route to every interface that is up.
	DefaultRoute bool
}

// Kernel has the questions that sysfs does not answer. A nil one is not asked.
// Those with one answer give the empty one for what is not known.
type Kernel struct {
	// Links are the host's interfaces by name.
	Links func() (map[string]Link, error)
	// EswitchMode is legacy or switchdev, of a PF by its PCI address.
	EswitchMode func(address string) string
	// DDPProfile is the name of the package in a PF's parser.
	DDPProfile func(address string) string
	// RDMAMode is RDMAShared or RDMAExclusive.
	RDMAMode func() string
	// RDMAParam reports whether devlink's enable_rdma is on, of a device by its
	// bus, pci or auxiliary, and name.
	RDMAParam func(bus, device string) bool
}

// HostKernel asks the kernel, in the network namespace of the process.
func HostKernel() Kernel {
	return Kernel{Links: hostLinks, EswitchMode: eswitchMode, DDPProfile: ddpProfile, RDMAMode: rdmaMode, RDMAParam: rdmaParam}
}

func hostLinks() (map[string]Link, error) {
	links, err := whole(linkList)
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	routes, err := whole(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_V4) })
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

// whole repeats a listing that a change in between has made incomplete: what is
// missing from it might be the default route.
func whole[T any](list func() ([]T, error)) ([]T, error) {
	const attempts = 5
	for i := 1; ; i++ {
		out, err := list()
		if i == attempts || !errors.Is(err, netlink.ErrDumpInterrupted) {
			return out, err
		}
	}
}

// linkList lists the interfaces without what they say of their VFs, as package
// netlink would have it: of a card with some 200 that is more than fits in a
// message, and the kernel answers with an error.
func linkList() ([]netlink.Link, error) {
	const skipStatistics = 1 << 3 // RTEXT_FILTER_SKIP_STATS
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	request.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(skipStatistics)))
	messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
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

// defaultRoutes are the indexes of interfaces that default routes go through.
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

func eswitchMode(address string) string {
	device, err := netlink.DevLinkGetDeviceByName("pci", address)
	if err != nil {
		return ""
	}
	return device.Attrs.Eswitch.Mode
}

func ddpProfile(address string) string {
	info, err := netlink.DevlinkGetDeviceInfoByNameAsMap("pci", address)
	if err != nil {
		return ""
	}
	return info["fw.app.name"]
}

func rdmaMode() string {
	mode, err := netlink.RdmaSystemGetNetnsMode()
	if err != nil {
		return "" // a kernel without RDMA, or an old one
	}
	return mode
}

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

func (k Kernel) links() (map[string]Link, error) {
	if k.Links == nil {
		return nil, nil
	}
	return k.Links()
}

func (k Kernel) eswitchMode(address string) string {
	if k.EswitchMode == nil {
		return ""
	}
	return k.EswitchMode(address)
}

func (k Kernel) ddpProfile(address string) string {
	if k.DDPProfile == nil {
		return ""
	}
	return k.DDPProfile(address)
}

func (k Kernel) rdmaMode() string {
	if k.RDMAMode == nil {
		return ""
	}
	return k.RDMAMode()
}

func (k Kernel) rdmaParam(bus, device string) bool {
	return k.RDMAParam != nil && k.RDMAParam(bus, device)
}

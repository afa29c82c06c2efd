package nodecmd

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

// inside describes network namespaces.
type inside struct {
	// host is the namespace of this process, and links its interfaces by index.
	host  netns.NsHandle
	links map[int]*netlink.LinkAttrs
}

// newInside returns an inside that knows the host's interfaces.
func newInside() (*inside, error) {
	in := &inside{host: netns.None()}
	host, err := netns.Get()
	if err != nil {
		return in, err
	}
	in.host = host // stays open until the program ends
	links, err := listLinks(host)
	in.links = make(map[int]*netlink.LinkAttrs, len(links))
	for _, l := range links {
		in.links[l.Attrs().Index] = l.Attrs()
	}
	return in, err
}

// look describes the namespace at a path.
func (in *inside) look(path string) (probe.Pod, error) {
	var pod probe.Pod
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return pod, fmt.Errorf("opening the network namespace: %w", err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return pod, fmt.Errorf("opening a netlink socket in the network namespace: %w", err)
	}
	defer h.Close()
	links, err := listLinks(ns)
	if err != nil {
		return pod, fmt.Errorf("listing interfaces: %w", err)
	}
	addrs, err := inventory.Whole(func() ([]netlink.Addr, error) { return h.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return pod, fmt.Errorf("listing addresses: %w", err)
	}
	names := namesOf(links)
	hostID := -1
	if id, err := h.GetNetNsIdByFd(int(in.host)); err == nil {
		hostID = id
	}
	for _, l := range links {
		if l.Attrs().Flags&net.FlagLoopback != 0 {
			continue
		}
		out := describe(l, names)
		in.below(&out, l.Attrs(), names, hostID)
		out.Addresses = addressesOf(l.Attrs().Index, addrs)
		pod.Links = append(pod.Links, out)
	}
	slices.SortFunc(pod.Links, func(a, b probe.Link) int { return strings.Compare(a.Name, b.Name) })
	if err := readRouting(h, names, &pod); err != nil {
		return pod, err
	}
	return pod, enter(ns, func() { readKernel(&pod) })
}

// below sets the interface below another one: one of the pod's or of the host's. Interfaces
// of other namespaces are unknown.
func (in *inside) below(out *probe.Link, a *netlink.LinkAttrs, names map[int]string, hostID int) {
	switch {
	case a.ParentIndex == 0:
	case a.NetNsID < 0:
		out.Lower = names[a.ParentIndex]
	case a.NetNsID == hostID && in.links[a.ParentIndex] != nil:
		lower := in.links[a.ParentIndex]
		out.Lower, out.OnHost = lower.Name, true
		if master := in.links[lower.MasterIndex]; lower.MasterIndex != 0 && master != nil {
			out.LowerMaster = master.Name
		}
	}
}

// listLinks lists the interfaces of a namespace without their virtual functions, of which a
// card may have more than fit into a message.
func listLinks(ns netns.NsHandle) ([]netlink.Link, error) {
	socket, err := nl.GetNetlinkSocketAt(ns, netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	return inventory.LinkList(map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: socket}})
}

// readRouting reads routes and rules of both families.
func readRouting(h *netlink.Handle, names map[int]string, pod *probe.Pod) error {
	for _, family := range families() {
		routes, err := inventory.Whole(func() ([]netlink.Route, error) {
			return h.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return fmt.Errorf("listing routes: %w", err)
		}
		for _, r := range routes {
			if r.Table != unix.RT_TABLE_LOCAL {
				pod.Routes = append(pod.Routes, routeOf(r, family, names))
			}
		}
		rules, err := inventory.Whole(func() ([]netlink.Rule, error) { return h.RuleList(family) })
		if err != nil {
			return fmt.Errorf("listing rules: %w", err)
		}
		for _, r := range rules {
			pod.Rules = append(pod.Rules, ruleOf(r, family))
		}
	}
	slices.SortStableFunc(pod.Routes, compareRoutes)
	slices.SortStableFunc(pod.Rules, func(a, b probe.Rule) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Table, b.Table), strings.Compare(a.From+" "+a.To, b.From+" "+b.To))
	})
	return nil
}

// families returns the address families that the kernel has. For a missing family, the
// kernel would return the other's routes.
func families() []int {
	if _, err := os.Stat(filepath.Join(ownSysctls, "ipv6")); err != nil {
		return []int{netlink.FAMILY_V4}
	}
	return []int{netlink.FAMILY_V4, netlink.FAMILY_V6}
}

// compareRoutes orders routes.
func compareRoutes(a, b probe.Route) int {
	return cmp.Or(cmp.Compare(a.Table, b.Table), strings.Compare(a.To, b.To), cmp.Compare(a.Metric, b.Metric),
		strings.Compare(a.Interface, b.Interface), strings.Compare(a.Via, b.Via), strings.Compare(a.Type, b.Type))
}

// enter runs f in a namespace, on a thread that ends with f, because the thread stays in that
// namespace.
func enter(ns netns.NsHandle, f func()) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := netns.Set(ns)
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		return fmt.Errorf("entering the network namespace: %w", err)
	}
	return nil
}

// ownSysctls is the directory of the sysctls of the thread's network namespace.
const ownSysctls = "/proc/sys/net"

// readKernel reads what only a thread in the namespace can read: sysctls, and the devices'
// PCI addresses by their drivers.
func readKernel(pod *probe.Pod) {
	pod.Sysctls = sysctls(probe.PodSysctls, "", "net.")
	for i := range pod.Links {
		l := &pod.Links[i]
		l.Sysctls = sysctls(probe.LinkSysctls, l.Name, "")
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		pod.Errors = append(pod.Errors, fmt.Sprintf("asking drivers for their devices: %v", err))
		return
	}
	defer func() { _ = unix.Close(fd) }()
	for i := range pod.Links {
		l := &pod.Links[i]
		if info, err := unix.IoctlGetEthtoolDrvinfo(fd, l.Name); err == nil { // many interfaces have no driver
			if address := unix.ByteSliceToString(info.Bus_info[:]); pciAddress.MatchString(address) {
				l.PCI = address
			}
		}
	}
}

// sysctls reads sysctls that exist. names are below net, and IFNAME stands for the
// interface. The keys lack the interface: ipv4.conf.net1.arp_filter of net1 is
// ipv4.arp_filter.
func sysctls(names []string, ifName, prefix string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		parts := strings.Split(name, ".")
		key := prefix + strings.Replace(name, "conf.IFNAME.", "", 1)
		for i, part := range parts {
			if part == "IFNAME" {
				parts[i] = ifName // may have dots itself
			}
		}
		content, err := os.ReadFile(filepath.Join(append([]string{ownSysctls}, parts...)...))
		if err == nil { // a kernel may lack it, or IPv6
			out[key] = strings.Join(strings.Fields(string(content)), " ")
		}
	}
	return out
}

package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// defaultInterface is the name that container runtimes give the interface of
// the cluster's default network.
const defaultInterface = "eth0"

// podNet looks into the network namespaces of sandboxes. Paths are the
// runtime's, in the host.
type podNet struct {
	namespaces *podns.Opener
	hostRoot   string
	// confDir is where the runtime finds the default network's configuration.
	confDir string
}

// socketCookie returns the cookie of the namespace, at a path, that a socket is in.
func socketCookie(socket *nl.NetlinkSocket, path string) (uint64, error) {
	c, err := unix.GetsockoptUint64(socket.GetFd(), unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("reading the cookie of network namespace %s (Linux 5.14 or later): %w", path, err)
	}
	return c, nil
}

// open returns a netlink socket in the namespace.
func (p *podNet) open(path string) (*netlink.Handle, error) {
	ns, err := p.namespaces.Open(path)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket in %s: %w", path, err)
	}
	return h, nil
}

// dumpTries is how often a list is asked for while what it lists is changing.
const dumpTries = 10

// dump asks for a list, again while what it lists is changing.
func dump[T any](list func() ([]T, error)) ([]T, error) {
	out, err := list()
	for tries := 1; errors.Is(err, netlink.ErrDumpInterrupted) && tries < dumpTries; tries++ {
		out, err = list()
	}
	return out, err
}

// namespace is what a sandbox's network namespace is before anything is attached.
type namespace struct {
	// cookie identifies it for the gate.
	cookie uint64
	// links are the names of the interfaces that it has.
	links []string
}

// look describes the namespace at a path in the host. Every pod waits for it:
// one socket does for both.
func (p *podNet) look(path string) (namespace, error) {
	var out namespace
	ns, err := p.namespaces.Open(path)
	if err != nil {
		return out, err
	}
	defer ns.Close()
	socket, err := nl.GetNetlinkSocketAt(ns, netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return out, fmt.Errorf("opening a netlink socket in %s: %w", path, err)
	}
	defer socket.Close()
	if out.cookie, err = socketCookie(socket, path); err != nil {
		return out, err
	}
	out.links, err = dump(func() ([]string, error) { return linkNames(socket) })
	if err != nil {
		return out, fmt.Errorf("listing the interfaces in %s: %w", path, err)
	}
	return out, nil
}

// linkNames lists the interfaces in the namespace that a socket is in.
func linkNames(socket *nl.NetlinkSocket) ([]string, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: socket}}
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(msgs))
	for _, m := range msgs {
		l, err := netlink.LinkDeserialize(nil, m)
		if err != nil {
			return nil, err
		}
		names = append(names, l.Attrs().Name)
	}
	return names, nil
}

// defaultNetwork describes the sandbox's interface on the default network as
// the first entry of network-status (behaviour A3-33). Its CNI result belongs
// to the container runtime, so it is read from the namespace.
func (p *podNet) defaultNetwork(s attachment.Sandbox) (*nadv1.NetworkStatus, error) {
	h, err := p.open(s.NetNS)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	link, err := h.LinkByName(defaultInterface)
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", defaultInterface, err)
	}
	out := &nadv1.NetworkStatus{
		Name:      p.defaultName(),
		Interface: defaultInterface,
		Mac:       link.Attrs().HardwareAddr.String(),
		Default:   true,
	}
	addrs, err := dump(func() ([]netlink.Addr, error) { return h.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	for _, a := range addrs {
		if a.IP.IsGlobalUnicast() {
			out.IPs = append(out.IPs, a.IP.String())
		}
	}
	inRuntimeOrder(out.IPs, s.IPs)
	out.Gateway, err = gateways(h, link)
	return out, err
}

// inRuntimeOrder sorts addresses as the runtime lists them: consumers take the
// first one for the primary one. Those that it does not list come last.
func inRuntimeOrder(ips, runtime []string) {
	rank := func(ip string) int {
		if i := slices.Index(runtime, ip); i >= 0 {
			return i
		}
		return len(runtime)
	}
	slices.SortStableFunc(ips, func(a, b string) int { return rank(a) - rank(b) })
}

// gateways are those of the link's default routes.
func gateways(h *netlink.Handle, link netlink.Link) ([]string, error) {
	var out []string
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := listDefaultRoutes(h, family)
		if err != nil {
			return nil, fmt.Errorf("listing routes: %w", err)
		}
		for _, r := range routes {
			if r.LinkIndex == link.Attrs().Index && r.Gw != nil {
				out = append(out, r.Gw.String())
			}
		}
	}
	return out, nil
}

// defaultName is the name in the first CNI configuration file by file name,
// which is the one that container runtimes take. An unreadable directory costs
// the name, not the status.
func (p *podNet) defaultName() string {
	files, err := confDir{hostRoot: p.hostRoot, path: p.confDir}.files()
	if err != nil {
		return ""
	}
	for _, file := range files {
		var conf struct {
			Name string `json:"name"`
		}
		data, err := os.ReadFile(file)
		if err == nil && json.Unmarshal(data, &conf) == nil && conf.Name != "" {
			return conf.Name
		}
	}
	return ""
}

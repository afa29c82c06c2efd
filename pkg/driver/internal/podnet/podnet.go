// Package podnet reads and changes the network namespaces of sandboxes:
//
//	podnet.go  interfaces and the default network
//	routes.go  default routes
package podnet

import (
	"errors"
	"fmt"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// defaultInterface is the name of the default network's interface in every pod.
const defaultInterface = "eth0"

// Reader reads and changes the network namespaces of sandboxes. Paths of namespaces are
// the runtime's, in the host. It refuses the host's own namespace with podns.ErrHost, and
// returns podns.ErrGone for one that is gone.
type Reader struct {
	namespaces *podns.Opener
	// defaultName returns the name of the default network, or an empty one.
	defaultName func() string
}

// NewReader returns a Reader. defaultName returns the name of the cluster's default
// network, or an empty one if it is unknown.
func NewReader(namespaces *podns.Opener, defaultName func() string) *Reader {
	return &Reader{namespaces: namespaces, defaultName: defaultName}
}

// socketCookie returns the cookie of the namespace that a socket is in. path is for the
// error.
func socketCookie(socket *nl.NetlinkSocket, path string) (uint64, error) {
	c, err := unix.GetsockoptUint64(socket.GetFd(), unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, reason.Errorf(reason.KernelTooOld, "reading the cookie of network namespace %s (Linux 5.14 or later): %w", path, err)
	}
	return c, nil
}

// Open opens the network namespace at a path in the host, which exists until it is closed.
// It refuses what podns.Opener.Open refuses.
func (p *Reader) Open(path string) (netns.NsHandle, error) { return p.namespaces.Open(path) }

// open returns a netlink socket in the namespace.
func (p *Reader) open(path string) (*netlink.Handle, error) {
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

// dumpTries limits how often a list is read again that changes while it is read.
const dumpTries = 10

// Dump reads a list, and reads it again if it changed meanwhile.
func Dump[T any](list func() ([]T, error)) ([]T, error) {
	out, err := list()
	for tries := 1; errors.Is(err, netlink.ErrDumpInterrupted) && tries < dumpTries; tries++ {
		out, err = list()
	}
	return out, err
}

// Namespace describes a network namespace.
type Namespace struct {
	// Cookie identifies the namespace for as long as the node runs.
	Cookie uint64
	// Links are the names of its interfaces.
	Links []string
}

// Inspect describes the namespace at a path. It uses one socket for everything, because
// every pod waits for it.
func (p *Reader) Inspect(path string) (Namespace, error) {
	var out Namespace
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
	if out.Cookie, err = socketCookie(socket, path); err != nil {
		return out, err
	}
	out.Links, err = Dump(func() ([]string, error) { return linkNames(socket) })
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

// DefaultNetwork returns the first entry of network-status: the sandbox's interface on
// the default network (behaviour A3-33). It reads the namespace, because the container
// runtime keeps the CNI result.
func (p *Reader) DefaultNetwork(s attachment.Sandbox) (*nadv1.NetworkStatus, error) {
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
	addrs, err := Dump(func() ([]netlink.Addr, error) { return h.AddrList(link, netlink.FAMILY_ALL) })
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

// inRuntimeOrder sorts addresses in the runtime's order, because consumers take the first
// one for the primary address. Addresses that the runtime does not list come last.
func inRuntimeOrder(ips, runtime []string) {
	rank := func(ip string) int {
		if i := slices.Index(runtime, ip); i >= 0 {
			return i
		}
		return len(runtime)
	}
	slices.SortStableFunc(ips, func(a, b string) int { return rank(a) - rank(b) })
}

// gateways returns the gateways of the link's default routes.
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

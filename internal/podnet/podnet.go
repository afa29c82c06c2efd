// Package podnet reads and changes the network namespaces of sandboxes.
package podnet

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/containernetworking/cni/pkg/types/create"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

// defaultInterface is the name of the default network's interface unless its result has others.
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
	s, err := p.look(path, false)
	return s.Namespace, err
}

// look describes the namespace at a path, with the addresses in it or without them.
func (p *Reader) look(path string, withAddresses bool) (State, error) {
	var out State
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
	out.ByIndex = map[int]Link{}
	out.Links, err = inventory.Whole(func() ([]string, error) { return linkNames(socket, out.ByIndex) })
	if err != nil {
		return out, fmt.Errorf("listing the interfaces in %s: %w", path, err)
	}
	if !withAddresses {
		return out, nil
	}
	out.Addresses, err = inventory.Whole(func() ([]Address, error) { return addresses(socket, out.ByIndex) })
	if err != nil {
		return out, fmt.Errorf("listing the addresses in %s: %w", path, err)
	}
	return out, nil
}

// dump requests a list from the kernel by a socket, and calls each for the messages of the answer, until that fails. It
// keeps none of them: a pod that may change its namespace can make any number.
func dump(socket *nl.NetlinkSocket, request int, answer uint16, of nl.NetlinkRequestData, each func(message []byte) error) error {
	req := nl.NewNetlinkRequest(request, unix.NLM_F_DUMP)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: socket}}
	req.AddData(of)
	var failed error
	err := req.ExecuteIter(unix.NETLINK_ROUTE, answer, func(message []byte) bool {
		failed = each(message)
		return failed == nil
	})
	return cmp.Or(failed, err)
}

// linkNames lists the interfaces in the namespace that a socket is in, and adds them by index.
func linkNames(socket *nl.NetlinkSocket, byIndex map[int]Link) ([]string, error) {
	var names []string
	err := dump(socket, unix.RTM_GETLINK, unix.RTM_NEWLINK, nl.NewIfInfomsg(unix.AF_UNSPEC), func(m []byte) error {
		l, err := netlink.LinkDeserialize(nil, m)
		if err == nil {
			at := l.Attrs()
			names, byIndex[at.Index] = append(names, at.Name), Link{at.Name, at.HardwareAddr.String()}
		}
		return err
	})
	return names, err
}

// DefaultNetwork returns the first entries of network-status: the sandbox's interfaces on the
// default network, with Multus' function and by the result that Multus has, too (behaviours A3-31 and
// A3-33). cached is the container runtime's entry of the network, or nil. What its result does not
// name is read from the namespace: an interface with its MAC address or, for a result
// without entries, everything.
func (p *Reader) DefaultNetwork(s attachment.Sandbox, cached *cniexec.CacheEntry) ([]*nadv1.NetworkStatus, error) {
	h, err := p.open(s.NetNS)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	out := resultEntries(cached)
	if len(out) > 0 && out[0].Interface != "" {
		return out, nil
	}
	read, err := p.readDefaultNetwork(h, s)
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return []*nadv1.NetworkStatus{read}, nil
	}
	out[0].Interface, out[0].Mac = read.Interface, read.Mac
	return out, nil
}

// resultEntries returns the entries of a cached result. It returns none if there is no result, or one
// that cannot be read.
func resultEntries(cached *cniexec.CacheEntry) []*nadv1.NetworkStatus {
	if cached == nil {
		return nil
	}
	result, err := create.CreateFromBytes(cached.Result)
	if err != nil {
		return nil
	}
	out, err := nadutils.CreateNetworkStatuses(result, cached.Network, true, nil)
	if err != nil {
		return nil
	}
	return out
}

// readDefaultNetwork describes the sandbox's default interface by its namespace.
func (p *Reader) readDefaultNetwork(h *netlink.Handle, s attachment.Sandbox) (*nadv1.NetworkStatus, error) {
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
	state, err := p.Look(s.NetNS)
	if err != nil {
		return nil, err
	}
	for _, a := range state.Addresses {
		if a.Interface == defaultInterface && a.IP.IsGlobalUnicast() {
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

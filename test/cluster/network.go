package cluster

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	bridgeName = "nadra0"
	uplinkName = "eth0"
	maxNodes   = 250
)

// hardwareAddress returns an address that follows from the host's number, so that other
// hosts find a rebooted node under the same address.
func hardwareAddress(number int) net.HardwareAddr {
	return net.HardwareAddr{0x02, 0x6e, 0x61, 0x64, 0, byte(number)}
}

// network is an open handle on the network of a machine.
type network struct {
	*netlink.Handle
	ns netns.NsHandle
}

// close closes the handle.
func (n network) close() {
	n.Close()
	n.ns.Close()
}

// setUpBridge creates the bridge to which all nodes are connected. The control plane is on
// it, with its own addresses and those of the API's service, because there is no
// kube-proxy.
func (m *Machine) setUpBridge(all families) error {
	n, err := m.network()
	if err != nil {
		return err
	}
	defer n.close()
	if err := n.up("lo"); err != nil {
		return err
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName, HardwareAddr: hardwareAddress(254)}}
	if err := n.LinkAdd(bridge); err != nil {
		return fmt.Errorf("adding the bridge: %w", err)
	}
	for _, f := range all {
		if err := n.configure(bridgeName, f.inNodes(f.controlPlane), host(f.service)); err != nil {
			return err
		}
	}
	return nil
}

// connect connects a booted node to the bridge and adds routes to the pods of all nodes,
// also of those that are not booted yet.
func (n *Node) connect(controlPlane *Machine, nodes int) error {
	center, err := controlPlane.network()
	if err != nil {
		return err
	}
	defer center.close()
	own, err := n.network()
	if err != nil {
		return err
	}
	defer own.close()
	if err := n.addCable(center, own); err != nil {
		return fmt.Errorf("connecting %s: %w", n.name, err)
	}
	if err := own.up("lo"); err != nil {
		return err
	}
	for _, f := range n.cluster.options.families() {
		if err := n.addRoutes(f, center, own, nodes); err != nil {
			return err
		}
	}
	return nil
}

// addRoutes gives a connected node its address in a family, and adds the routes of connect.
func (n *Node) addRoutes(f family, center, own network, nodes int) error {
	if err := own.configure(uplinkName, f.inNodes(f.nodeIP(n.number))); err != nil {
		return err
	}
	if err := own.route(f.any+"/0", f.controlPlane); err != nil {
		return err
	}
	for other := 1; other <= nodes; other++ {
		if other == n.number {
			continue
		}
		if err := own.route(f.podCIDR(other), f.nodeIP(other)); err != nil {
			return err
		}
	}
	return center.route(f.podCIDR(n.number), f.nodeIP(n.number))
}

// addCable adds a pair of virtual interfaces: eth0 in the node, and a port of
// the bridge that has the node's name.
func (n *Node) addCable(center, own network) error {
	if old, err := center.LinkByName(n.name); err == nil {
		// Of the last boot: the kernel removes it with its namespace, later.
		if err := center.LinkDel(old); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("removing the old link: %w", err)
		}
	}
	bridge, err := center.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("finding the bridge: %w", err)
	}
	cable := &netlink.Veth{
		LinkAttrs:        netlink.LinkAttrs{Name: n.name, MasterIndex: bridge.Attrs().Index},
		PeerName:         uplinkName,
		PeerHardwareAddr: hardwareAddress(n.number),
		PeerNamespace:    netlink.NsFd(own.ns),
	}
	if err := center.LinkAdd(cable); err != nil {
		return fmt.Errorf("adding the link: %w", err)
	}
	return center.up(n.name)
}

func (n network) up(name string) error {
	link, err := n.LinkByName(name)
	if err != nil {
		return fmt.Errorf("finding interface %s: %w", name, err)
	}
	if err := n.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting %s up: %w", name, err)
	}
	return nil
}

// configure gives an interface its addresses and sets it up. No IPv6 address waits for the
// search for duplicates.
func (n network) configure(name string, addresses ...string) error {
	link, err := n.LinkByName(name)
	if err != nil {
		return fmt.Errorf("finding interface %s: %w", name, err)
	}
	for _, text := range addresses {
		address, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		if address.IP.To4() == nil {
			address.Flags = unix.IFA_F_NODAD
		}
		if err := n.AddrAdd(link, address); err != nil {
			return fmt.Errorf("adding %s to %s: %w", text, name, err)
		}
	}
	return n.up(name)
}

func (n network) route(destination, via string) error {
	_, subnet, err := net.ParseCIDR(destination)
	if err != nil {
		return err
	}
	route := &netlink.Route{Dst: subnet, Gw: net.ParseIP(via)}
	if err := n.RouteReplace(route); err != nil {
		return fmt.Errorf("routing %s via %s: %w", destination, via, err)
	}
	return nil
}

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Guest is a node that is no machine of this package, such as a virtual machine, with
// containerd. The cluster has a cable to it, and a token for it. The caller decides what
// runs on it, and when.
type Guest struct {
	cluster *Cluster
	number  int
}

// Guests returns the guests in the order of their numbers.
func (c *Cluster) Guests() []*Guest { return c.guests }

// Artifacts returns the folders of the programs that the cluster runs.
func (c *Cluster) Artifacts() Artifacts { return c.artifacts }

// Name returns the node's name in the cluster.
func (g *Guest) Name() string { return nodeName(g.number) }

// IP returns the guest's address, in a network of 24 bits.
func (g *Guest) IP() string { return ipv4.nodeIP(g.number) }

// Gateway returns the guest's default gateway.
func (g *Guest) Gateway() string { return ipv4.controlPlane }

// MAC returns the hardware address of the guest's end of the cable.
func (g *Guest) MAC() net.HardwareAddr { return hardwareAddress(g.number) }

// Tap returns the name of the cluster's end of the cable. It is a tap in the network of the
// control plane's machine, where the program that opens it has to run.
func (g *Guest) Tap() string { return nodeName(g.number) }

// connect creates the cable and adds routes to the guest's pods.
func (g *Guest) connect() error {
	m := g.cluster.controlPlane
	// An ioctl creates a tap, in the network of the thread.
	err := m.enter(unix.CLONE_NEWNET, func() error {
		return netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: g.Tap()}, Mode: netlink.TUNTAP_MODE_TAP})
	})
	if err != nil {
		return fmt.Errorf("making the tap of guest %s (is there a /dev/net/tun?): %w", g.Name(), err)
	}
	center, err := m.network()
	if err != nil {
		return err
	}
	defer center.close()
	tap, err := center.LinkByName(g.Tap())
	if err != nil {
		return fmt.Errorf("finding the tap of guest %s: %w", g.Name(), err)
	}
	bridge, err := center.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("finding the bridge: %w", err)
	}
	if err := center.LinkSetMaster(tap, bridge); err != nil {
		return fmt.Errorf("connecting guest %s: %w", g.Name(), err)
	}
	if err := center.up(g.Tap()); err != nil {
		return err
	}
	return center.route(ipv4.podCIDR(g.number), g.IP())
}

// The files of a guest that its programs read.
const (
	guestContainerd = "/etc/containerd/config.toml"
	guestKubelet    = "/etc/kubernetes/kubelet.json"
	guestAccess     = "/etc/kubernetes/kubeconfig"
	guestNetwork    = "/etc/cni/net.d/10-default.conflist"
)

// Files renders the files that configure the guest like any other node, by path. The
// guest's root file system must support overlays, and runc must be in its PATH.
func (g *Guest) Files() (map[string][]byte, error) {
	runtime, err := containerdConfig(containerdSettings{
		Snapshotter: "overlayfs", PauseImage: PauseImage, Runc: "runc", NRITimeout: g.cluster.options.NRITimeout, Layout: g.cluster.Layout(),
	})
	if err != nil {
		return nil, fmt.Errorf("rendering the configuration of containerd: %w", err)
	}
	kubelet, err := json.MarshalIndent(kubeletConfig(g.IP(), "/", containerd{}.socket(), g.cluster.Layout().Kubelet, g.cluster.options.kubeletFields()), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("rendering the configuration of kubelet: %w", err)
	}
	network, err := json.MarshalIndent(defaultNetwork(ipv4.podCIDR(g.number)), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("rendering the default network: %w", err)
	}
	access, err := os.ReadFile(g.cluster.secrets.kubeconfig(g.Name()))
	if err != nil {
		return nil, fmt.Errorf("reading the access of guest %s: %w", g.Name(), err)
	}
	return map[string][]byte{
		guestContainerd: runtime, guestKubelet: kubelet, guestAccess: access, guestNetwork: network,
	}, nil
}

// Commands returns the programs that make the guest a node, with their arguments, in the
// order of their start.
func (g *Guest) Commands() [][]string {
	return [][]string{
		{Containerd, "--config", guestContainerd},
		{
			Kubelet, "--config=" + guestKubelet, "--kubeconfig=" + guestAccess, "--cert-dir=/var/lib/kubelet/pki",
			"--node-ip=" + g.IP(), "--hostname-override=" + g.Name(),
		},
	}
}

// WaitReady waits until pods can run on the guest, in the boot with an ID.
func (g *Guest) WaitReady(ctx context.Context, bootID string) error {
	return poll(ctx, startLimit, "waiting for guest "+g.Name()+" to be ready", func(ctx context.Context) (bool, error) {
		var status nodeStatus
		if err := g.cluster.get(ctx, "/api/v1/nodes/"+g.Name(), &status); err != nil {
			return false, err
		}
		return status.usable(bootID)
	})
}

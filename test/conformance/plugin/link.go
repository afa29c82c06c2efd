package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/containernetworking/cni/pkg/invoke"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// add creates the interfaces as pairs with one end in the pod, and gives the first one the
// addresses of the IPAM plugin.
func (c conf) add() error {
	ns, err := netns.GetFromPath(os.Getenv("CNI_NETNS"))
	if err != nil {
		return fmt.Errorf("opening the pod's network: %w", err)
	}
	defer ns.Close()
	pod, err := netlink.NewHandleAt(ns)
	if err != nil {
		return err
	}
	defer pod.Close()
	result := &types100.Result{CNIVersion: types100.ImplementedSpecVersion, DNS: c.Behave.DNS}
	for i := range c.interfaces() {
		if err := c.addPair(ns, pod, i, result); err != nil {
			return err
		}
	}
	if err := c.allotted(pod, result); err != nil {
		return errors.Join(err, c.remove(pod))
	}
	if err := c.writeDeviceInfo(); err != nil {
		return err
	}
	return c.print(result)
}

func (c conf) interfaces() int {
	if c.Behave.Interfaces != nil {
		return *c.Behave.Interfaces
	}
	return 1
}

func (c conf) podName(i int) string {
	if i < len(c.Behave.Names) {
		return c.Behave.Names[i]
	}
	name := os.Getenv("CNI_IFNAME")
	if i > 0 {
		name = fmt.Sprintf("%s-%d", name, i)
	}
	return name
}

func (c conf) addPair(ns netns.NsHandle, pod *netlink.Handle, i int, result *types100.Result) error {
	mac, err := net.ParseMAC(c.mac(i))
	if err != nil {
		return err
	}
	host := fmt.Sprintf("si%x", digest(fmt.Sprint("host", i)))[:12]
	pair := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: host, MTU: c.MTU},
		PeerName:  c.podName(i), PeerNamespace: netlink.NsFd(ns), PeerHardwareAddr: mac,
	}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("adding %s: %w", c.podName(i), err)
	}
	link, err := pod.LinkByName(c.podName(i))
	if err != nil {
		return err
	}
	for _, up := range []error{netlink.LinkSetUp(pair), pod.LinkSetUp(link)} {
		if up != nil {
			return up
		}
	}
	if c.Behave.Host {
		result.Interfaces = append(result.Interfaces, &types100.Interface{Name: host})
	}
	reported := &types100.Interface{Name: c.podName(i), Mac: mac.String(), Sandbox: os.Getenv("CNI_NETNS")}
	if c.Behave.ReportMTU {
		reported.Mtu = link.Attrs().MTU
	}
	result.Interfaces = append(result.Interfaces, reported)
	return nil
}

// allotted calls the IPAM plugin and configures its result.
func (c conf) allotted(pod *netlink.Handle, result *types100.Result) error {
	if c.IPAM.Type == "" {
		return nil
	}
	answer, err := invoke.DelegateAdd(context.Background(), c.IPAM.Type, c.raw, nil)
	if err != nil {
		return err
	}
	ipam, err := types100.NewResultFromResult(answer)
	if err != nil {
		return err
	}
	result.IPs, result.Routes = ipam.IPs, ipam.Routes
	if result.DNS.IsEmpty() {
		result.DNS = ipam.DNS
	}
	if len(result.Interfaces) == 0 {
		return nil
	}
	link, err := pod.LinkByName(c.podName(0))
	if err != nil {
		return err
	}
	for i, ip := range result.IPs {
		if !c.Behave.NoIndex {
			ip.Interface = types100.Int(len(result.Interfaces) - 1)
		}
		if c.Behave.Spread {
			ip.Interface = types100.Int(i)
			if link, err = pod.LinkByName(c.podName(i)); err != nil {
				return err
			}
		}
		if err := pod.AddrAdd(link, &netlink.Addr{IPNet: &ip.Address}); err != nil {
			return fmt.Errorf("adding address %s: %w", ip.Address.String(), err)
		}
	}
	for _, r := range result.Routes {
		err := pod.RouteAddEcmp(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: &r.Dst, Gw: r.GW})
		if err != nil && !errors.Is(err, os.ErrExist) { // as the reference plugins do: of two the first stays
			return fmt.Errorf("adding the route to %s: %w", r.Dst.String(), err)
		}
	}
	return nil
}

// del deletes the interfaces. It may be repeated, and succeeds also if the pod's network is
// gone.
func (c conf) del() error {
	var errs []error
	if c.IPAM.Type != "" {
		errs = append(errs, invoke.DelegateDel(context.Background(), c.IPAM.Type, c.raw, nil))
	}
	ns, err := netns.GetFromPath(os.Getenv("CNI_NETNS"))
	if err != nil {
		return errors.Join(errs...) // the interface went with the network
	}
	defer ns.Close()
	pod, err := netlink.NewHandleAt(ns)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	defer pod.Close()
	return errors.Join(append(errs, c.remove(pod))...)
}

func (c conf) remove(pod *netlink.Handle) error {
	for i := range c.interfaces() {
		link, err := pod.LinkByName(c.podName(i))
		if errors.As(err, new(netlink.LinkNotFoundError)) {
			continue
		}
		if _, ours := link.(*netlink.Veth); err == nil && ours { // otherwise it belongs to another plugin of the chain
			err = pod.LinkDel(link)
		}
		if err != nil {
			return fmt.Errorf("deleting %s: %w", c.podName(i), err)
		}
	}
	return nil
}

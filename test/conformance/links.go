package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// inNetNS runs fn in the network namespace at path, on a thread of its own.
func inNetNS(path string, fn func() error) error {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	defer ns.Close()
	return onThread(func() error {
		if err := netns.Set(ns); err != nil {
			return fmt.Errorf("entering %s: %w", path, err)
		}
		return fn()
	})
}

// onThread runs fn on a thread that ends afterwards.
func onThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		done <- fn()
	}()
	return <-done
}

const netnsDir = "/var/run/netns"

// newNetNS creates the network namespace of a sandbox as a runtime does. It switches off
// the detection of duplicate addresses, which takes the kernel a second each time.
func newNetNS(name string) (path string, err error) {
	err = onThread(func() error {
		ns, err := netns.NewNamed(name)
		if err != nil {
			return err
		}
		defer ns.Close()
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return errors.Join(noDAD(), netlink.LinkSetUp(lo))
	})
	if err != nil {
		return "", fmt.Errorf("making network namespace %s: %w", name, err)
	}
	return filepath.Join(netnsDir, name), nil
}

func noDAD() error {
	var errs []error
	for _, which := range []string{"all", "default"} {
		errs = append(errs, os.WriteFile("/proc/sys/net/ipv6/conf/"+which+"/accept_dad", []byte("0"), 0o644))
	}
	return errors.Join(errs...)
}

// nodeNetwork restores the node's interfaces as the cases expect them.
type nodeNetwork struct {
	base []string // interfaces that the node has without any case
	want map[string]bool
}

func newNodeNetwork(want map[string]bool) (*nodeNetwork, error) {
	if err := noDAD(); err != nil {
		return nil, err
	}
	n := &nodeNetwork{want: want}
	present, err := linkNames()
	if err != nil {
		return nil, err
	}
	n.base = present
	if err := n.restore(); err != nil {
		return nil, err
	}
	n.base, err = linkNames()
	return n, err
}

// restore removes interfaces that plugins have left, above all bridges, and recreates those
// that ended with a pod's namespace.
func (n *nodeNetwork) restore() error {
	added, err := n.added()
	if err != nil {
		return err
	}
	for _, name := range added {
		if link, err := netlink.LinkByName(name); err == nil {
			if err := netlink.LinkDel(link); err != nil {
				return fmt.Errorf("removing %s from the node: %w", name, err)
			}
		}
	}
	for name, bridge := range n.want {
		if _, err := netlink.LinkByName(name); err == nil {
			continue
		}
		if err := addLink(name, bridge); err != nil {
			return fmt.Errorf("adding %s to the node: %w", name, err)
		}
	}
	return nil
}

// added returns the node's interfaces that were created since it was set up.
func (n *nodeNetwork) added() ([]string, error) {
	present, err := linkNames()
	return slices.DeleteFunc(present, func(name string) bool { return slices.Contains(n.base, name) }), err
}

func linkNames() ([]string, error) {
	links, err := netlink.LinkList()
	var names []string
	for _, l := range links {
		names = append(names, l.Attrs().Name)
	}
	slices.Sort(names)
	return names, err
}

func addLink(name string, bridge bool) error {
	attrs := netlink.LinkAttrs{Name: name}
	var link netlink.Link = &netlink.Veth{LinkAttrs: attrs, PeerName: peerOf(name)}
	if bridge {
		link = &netlink.Bridge{LinkAttrs: attrs}
	}
	if err := netlink.LinkAdd(link); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil || bridge {
		return err
	}
	peer, err := netlink.LinkByName(peerOf(name))
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(peer)
}

func peerOf(name string) string {
	const limit = 15
	return name[:min(len(name), limit-1)] + "~"
}

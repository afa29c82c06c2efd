package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/nadra-dev/nadra/test/cluster"
)

// Snapshot has the resources of a node that attachments create.
type Snapshot struct {
	links, netns, addresses, cache, records, cdi []string
}

// TakeSnapshot takes a snapshot of a node. It reads the kernel and the disk, and does not
// ask nadra.
func TakeSnapshot(n *cluster.Node) (Snapshot, error) {
	var s Snapshot
	ns, err := n.NetNS()
	if err != nil {
		return s, err
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return s, err
	}
	defer h.Close()
	links, err := h.LinkList()
	if err != nil {
		return s, err
	}
	for _, l := range links {
		// The bridge of the cluster's default network comes with the first pod.
		if l.Attrs().Name != "cni0" {
			s.links = append(s.links, l.Attrs().Name)
		}
	}
	if s.netns, err = n.PodNetNSPaths(); err != nil {
		return s, err
	}
	for _, d := range []struct {
		pattern string
		into    *[]string
	}{
		{"/var/lib/cni/networks/*/*", &s.addresses},
		{n.Layout().State + "/cni/results/*", &s.cache},
		{n.Layout().State + "/claims/*", &s.records},
		{n.Layout().CDI + "/*", &s.cdi},
	} {
		pattern, err := n.HostPath(d.pattern)
		if err != nil {
			return s, err
		}
		if *d.into, err = filepath.Glob(pattern); err != nil {
			return s, err
		}
	}
	// These are host-local's own files.
	s.addresses = slices.DeleteFunc(s.addresses, func(p string) bool {
		b := filepath.Base(p)
		return b == "lock" || strings.HasPrefix(b, "last_reserved_ip.")
	})
	return s, nil
}

// Added lists the resources that s has and before does not.
func (s Snapshot) Added(before Snapshot) []string {
	var out []string
	add := func(kind string, now, then []string) {
		for _, x := range now {
			if !slices.Contains(then, x) {
				out = append(out, kind+" "+filepath.Base(x))
			}
		}
	}
	add("link", s.links, before.links)
	add("netns", s.netns, before.netns)
	add("host-local address", s.addresses, before.addresses)
	add("libcni cache file", s.cache, before.cache)
	add("record", s.records, before.records)
	add("CDI file", s.cdi, before.cdi)
	return out
}

// NothingAdded waits until the node has no resource that it did not have before.
func NothingAdded(ctx context.Context, n *cluster.Node, before Snapshot) error {
	return Eventually(ctx, 30*time.Second, func(context.Context) error {
		now, err := TakeSnapshot(n)
		if err != nil {
			return err
		}
		if left := now.Added(before); len(left) > 0 {
			return fmt.Errorf("left on %s: %s", n.Name(), strings.Join(left, ", "))
		}
		return nil
	})
}

// WriteHostFile writes a file on the node.
func WriteHostFile(n *cluster.Node, path string, data []byte, mode os.FileMode) error {
	p, err := n.HostPath(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	return os.WriteFile(p, data, mode)
}

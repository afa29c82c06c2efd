package cluster

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/vishvananda/netns"
)

// NetNS opens the node's own network namespace. The caller closes it.
func (n *Node) NetNS() (netns.NsHandle, error) {
	p, err := n.initProcess()
	if err != nil {
		return netns.None(), err
	}
	return netns.GetFromPid(p.pid)
}

// PodNetNS opens the network namespace of a pod by its path on the node, such as
// /var/run/netns/cni-…. The caller closes it.
func (n *Node) PodNetNS(path string) (netns.NsHandle, error) {
	outside, err := n.HostPath(path)
	if err != nil {
		return netns.None(), err
	}
	return netns.GetFromPath(outside)
}

// PodNetNSPaths lists the network namespaces of the pods on the node. It leaves out the
// node's own, of which CRI-O makes a path for each pod with the host's network.
func (n *Node) PodNetNSPaths() ([]string, error) {
	root, err := n.HostPath("/")
	if err != nil {
		return nil, err
	}
	node, err := os.Stat(filepath.Join(root, "proc/1/ns/net"))
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(root, "run/netns"))
	if err != nil {
		return nil, err
	}
	paths := make([]string, 0, len(entries))
	for _, entry := range entries {
		path := filepath.Join("/run/netns", entry.Name())
		switch at, err := os.Stat(filepath.Join(root, path)); {
		case errors.Is(err, os.ErrNotExist): // removed just now
		case err != nil:
			return nil, err
		case !os.SameFile(at, node):
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// DoInNetNS runs fn in a network namespace, given by its path on the node.
// Goroutines that fn starts run in any namespace.
func (n *Node) DoInNetNS(path string, fn func() error) error {
	outside, err := n.HostPath(path)
	if err != nil {
		return err
	}
	return inNetNS(outside, fn)
}

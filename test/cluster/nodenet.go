package cluster

import (
	"os"

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

// PodNetNSPaths lists the network namespaces of the pods on the node.
func (n *Node) PodNetNSPaths() ([]string, error) {
	folder, err := n.HostPath("/run/netns")
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	paths := make([]string, 0, len(entries))
	for _, entry := range entries {
		paths = append(paths, "/run/netns/"+entry.Name())
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

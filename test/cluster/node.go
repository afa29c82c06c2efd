package cluster

import (
	"context"
	"fmt"
	"path/filepath"
)

// The components of a node.
const (
	Containerd = "containerd"
	CRIO       = "crio"
	Kubelet    = "kubelet"
)

// Node is a machine that runs pods.
type Node struct {
	*Machine
	number  int
	cluster *Cluster
}

func nodeName(number int) string { return fmt.Sprintf("node-%d", number) }

// IP returns the node's first address in the cluster's own network.
func (n *Node) IP() string { return n.cluster.options.families()[0].nodeIP(n.number) }

// newNode describes a node. It has its own copies of the folders that pods and components
// write to, and shares all others with the real machine.
func (c *Cluster) newNode(number int) *Node {
	n := &Node{Machine: c.newMachine(nodeName(number)), number: number, cluster: c}
	disk := func(name string) string { return filepath.Join(n.folder, "disk", name) }
	n.folders = map[string]string{
		"/var/lib/cni":        disk("cni-state"),
		"/var/log/pods":       filepath.Join(n.logs, "pods"),
		"/var/log/containers": filepath.Join(n.logs, "containers"),
		"/var/tmp":            disk("tmp"),
	}
	for _, s := range sysctls {
		n.files = append(n.files, bind{Source: n.sysctlFile(s.path), Target: s.path})
	}
	runtime := n.artifacts.runtime()
	for _, folders := range []map[string]string{n.Layout().folders, runtime.disk()} {
		for path, name := range folders {
			n.folders[path] = disk(name)
		}
	}
	if n.Layout().ReadOnlyRoot {
		n.writable = []string{"/tmp", c.options.Dir}
	}
	n.files = append(n.files, runtime.files(n)...)
	n.components = []component{n.runtimeComponent(), n.kubelet()}
	return n
}

func (n *Node) kubelet() component {
	c := n.program(n.artifacts.Kubelet, Kubelet,
		"--config="+n.configFile("kubelet.json"),
		"--root-dir="+n.Layout().Kubelet,
		"--kubeconfig="+n.cluster.secrets.kubeconfig(n.name),
		"--cert-dir="+filepath.Join(n.folder, "pki"),
		"--node-ip="+n.cluster.options.families().nodeIPs(n.number),
		"--hostname-override="+n.name,
	)
	c.check = func(ctx context.Context) error { return n.getHealth(ctx, "http://127.0.0.1:10248/healthz") }
	return c
}

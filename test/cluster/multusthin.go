package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// thinMultus is the name under which the runtime finds Multus where it has no
// daemon.
const thinMultus = "multus"

// InstallThinMultus makes Multus the node's CNI in the form that has no daemon:
// a program that the runtime runs for each CNI call, with the cluster's own
// configuration as its first network. program is that of BuildMultus; the CRD
// must be there. It returns when the runtime has turned to Multus.
func (n *Node) InstallThinMultus(ctx context.Context, program string) error {
	if err := n.layOutThinMultus(program); err != nil {
		return fmt.Errorf("installing Multus on %s: %w", n.name, err)
	}
	return poll(ctx, startLimit, "waiting until the runtime turns to Multus", func(ctx context.Context) (bool, error) {
		return n.RuntimeUses(ctx, thinMultus)
	})
}

func (n *Node) layOutThinMultus(program string) error {
	if err := n.InstallPlugin(thinMultus, program); err != nil {
		return err
	}
	first, err := json.Marshal(defaultNetwork(podCIDR(n.number)))
	if err != nil {
		return err
	}
	config, err := json.Marshal(object{
		"cniVersion": "1.0.0",
		"name":       "multus-cni-network",
		"type":       thinMultus,
		"kubeconfig": n.cluster.Kubeconfig(),
		"binDir":     cniPluginDir,
		"logLevel":   "error",
		"delegates":  []json.RawMessage{first},
	})
	if err != nil {
		return err
	}
	outside, err := n.HostPath(multusConfig)
	if err != nil {
		return err
	}
	return replaceFile(outside, config, 0o600)
}

// InstallPlugin puts a program among the node's CNI plugins.
func (n *Node) InstallPlugin(name, program string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	outside, err := n.HostPath(filepath.Join(cniPluginDir, name))
	if err != nil {
		return err
	}
	return replaceFile(outside, content, 0o755)
}

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
)

// thinMultus is the name of the Multus that has no daemon among the CNI plugins.
const thinMultus = "multus"

// InstallThin makes Multus the node's CNI in the form that has no daemon: a program that
// the runtime runs for each CNI call, with the cluster's own configuration as its default
// network. program is that of BuildMultus, and the CRD must exist. InstallThin returns when
// the runtime uses Multus.
func (m Multus) InstallThin(ctx context.Context, program string) error {
	if err := m.writeThinFiles(program); err != nil {
		return fmt.Errorf("installing Multus on %s: %w", m.node.name, err)
	}
	return poll(ctx, startLimit, "waiting until the runtime uses Multus", func(ctx context.Context) (bool, error) {
		return m.node.Runtime().Uses(ctx, thinMultus)
	})
}

// writeThinFiles writes Multus and its configuration to the node.
func (m Multus) writeThinFiles(program string) error {
	n := m.node
	if err := n.InstallPlugin(thinMultus, program); err != nil {
		return err
	}
	first, err := json.Marshal(defaultNetwork(n.cluster.options.families().podCIDRs(n.number)...))
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

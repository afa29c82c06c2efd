package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
)

// thinMultus is the name of the Multus that has no daemon among the CNI plugins.
const thinMultus = "multus"

// multusState is Multus' directory of the sandboxes that it has attached.
const multusState = "/var/lib/cni/multus"

// InstallThin makes Multus the node's CNI in the form that has no daemon: a program that
// the runtime runs for each CNI call, with the cluster's own configuration as its default
// network. program is that of BuildMultus, and the CRD must exist. InstallThin returns when
// the runtime uses Multus.
func (m Multus) InstallThin(ctx context.Context, program string) error {
	if err := m.writeThinFiles(program); err != nil {
		return fmt.Errorf("installing Multus on %s: %w", m.node.name, err)
	}
	return m.await(ctx, thinMultus, true)
}

// HideThin takes the runtime's configuration of a thin Multus away, as upgrade run does, and returns when
// the runtime does without Multus.
func (m Multus) HideThin(ctx context.Context) error {
	return m.moveThin(ctx, multusConfig, multusHidden, false)
}

// ShowThin gives the configuration that HideThin has taken away back to the runtime, and returns when
// the runtime uses Multus.
func (m Multus) ShowThin(ctx context.Context) error {
	return m.moveThin(ctx, multusHidden, multusConfig, true)
}

func (m Multus) moveThin(ctx context.Context, from, to string, uses bool) error {
	if _, err := m.node.Exec(ctx, "mv", from, to); err != nil {
		return fmt.Errorf("moving the configuration of Multus on %s: %w", m.node.name, err)
	}
	return m.await(ctx, thinMultus, uses)
}

// RemoveThin removes a thin Multus with all that it keeps, and returns when the runtime does without it.
// Nobody deletes the networks of pods that Multus has attached.
func (m Multus) RemoveThin(ctx context.Context) error {
	if _, err := m.node.Exec(ctx, "rm", "-rf", multusConfig, multusHidden, cniPluginDir+"/"+thinMultus, multusState); err != nil {
		return fmt.Errorf("removing Multus from %s: %w", m.node.name, err)
	}
	return m.await(ctx, thinMultus, false)
}

// writeThinFiles writes Multus and its configuration to the node.
func (m Multus) writeThinFiles(program string) error {
	n := m.node
	if err := n.InstallPlugin(thinMultus, program); err != nil {
		return err
	}
	config, err := thinMultusConfig(n.cluster.Kubeconfig(), n.cluster.options.families().podCIDRs(n.number)...)
	if err != nil {
		return err
	}
	outside, err := n.HostPath(multusConfig)
	if err != nil {
		return err
	}
	return replaceFile(outside, config, 0o600)
}

// thinMultusConfig returns the runtime's configuration of a thin Multus, whose default network has an
// address of each subnet.
func thinMultusConfig(kubeconfig string, subnets ...string) ([]byte, error) {
	return json.Marshal(object{
		"cniVersion": "1.0.0",
		"name":       "multus-cni-network",
		"type":       thinMultus,
		"kubeconfig": kubeconfig,
		"binDir":     cniPluginDir,
		"logLevel":   "error",
		"delegates":  []object{defaultNetwork(subnets...)},
	})
}

// MultusFiles renders the files of a thin Multus on the guest, by path, without its program. Its access to
// the API server is the administrator's.
func (g *Guest) MultusFiles() (map[string][]byte, error) {
	const account = cniConfigDir + "/multus.kubeconfig"
	config, err := thinMultusConfig(account, ipv4.podCIDR(g.number))
	if err != nil {
		return nil, fmt.Errorf("rendering the configuration of Multus: %w", err)
	}
	access, err := os.ReadFile(g.cluster.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reading the access of Multus: %w", err)
	}
	return map[string][]byte{multusConfig: config, account: access}, nil
}

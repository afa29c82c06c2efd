//go:build e2e

package kubevirt

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// configuration is KubeVirt's own object. Machines that need another network than they have are migrated.
// The binding plugin has a network, which launcher pods of machines that use it get.
const configuration = `
apiVersion: kubevirt.io/v1
kind: KubeVirt
metadata: {name: kubevirt, namespace: kubevirt}
spec:
  imagePullPolicy: Never
  workloadUpdateStrategy: {workloadUpdateMethods: [LiveMigrate]}
  configuration:
    imagePullPolicy: Never
    vmRolloutStrategy: LiveUpdate
    developerConfiguration: {useEmulation: true, featureGates: [NetworkDevicesWithDRA]}
    network: {binding: {lane: {networkAttachmentDefinition: kubevirt/binding}, claimed: {}}}
`

// networks are those of KubeVirt itself: one of the binding plugin, and one for migrations.
const networks = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: binding, namespace: kubevirt}
spec: {config: '{"cniVersion": "1.0.0", "type": "macvlan", "master": "` + master + `"}'}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: ` + cluster.KubeVirtMigrationNetwork + `, namespace: kubevirt}
spec: {config: '{"cniVersion": "1.0.0", "type": "macvlan", "master": "` + master + `"}'}
`

// installKubeVirt installs what virt-operator would install, and makes the nodes those of virt-handler.
func installKubeVirt(ctx context.Context, c *cluster.Cluster) error {
	for _, n := range c.Nodes() {
		if err := prepareNode(ctx, c, n.Name()); err != nil {
			return fmt.Errorf("preparing %s for launcher pods: %w", n.Name(), err)
		}
	}
	if _, err := c.Kubectl(ctx, "create", "namespace", "kubevirt"); err != nil {
		return err
	}
	if _, err := c.KubectlInput(ctx, networks, "apply", "-f", "-"); err != nil {
		return err
	}
	file := filepath.Join(runFolder, "kubevirt.json")
	if err := kubeVirt.WriteManifests(ctx, file); err != nil {
		return err
	}
	if err := createInOrder(ctx, c, file); err != nil {
		return err
	}
	if _, err := c.KubectlInput(ctx, configuration, "apply", "-f", "-"); err != nil {
		return err
	}
	// virt-operator writes the architecture of machines that name none, and that KubeVirt is deployed, without
	// which virt-controller migrates no machine on its own.
	if _, err := c.Kubectl(ctx, "-n", "kubevirt", "patch", "kubevirt", "kubevirt", "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Deployed","defaultArchitecture":"`+runtime.GOARCH+`"}}`); err != nil {
		return err
	}
	for _, d := range []string{"virt-api", "virt-controller"} {
		if out, err := c.Kubectl(ctx, "-n", "kubevirt", "rollout", "status", "deployment/"+d, "--timeout=180s"); err != nil {
			logs, _ := c.Kubectl(ctx, "-n", "kubevirt", "logs", "deployment/"+d, "--tail=30")
			return fmt.Errorf("waiting for %s: %w\n%s\n%s", d, err, out, logs)
		}
	}
	return nil
}

// createInOrder creates the objects of a List, first the CRDs, and the rest once they are known.
func createInOrder(ctx context.Context, c *cluster.Cluster, file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("reading KubeVirt's manifests: %w", err)
	}
	var definitions, others []json.RawMessage
	for _, item := range list.Items {
		var object struct{ Kind string }
		if err := json.Unmarshal(item, &object); err != nil {
			return err
		}
		if object.Kind == "CustomResourceDefinition" {
			definitions = append(definitions, item)
		} else {
			others = append(others, item)
		}
	}
	for _, part := range [][]json.RawMessage{definitions, others} {
		text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": part})
		if err != nil {
			return err
		}
		if _, err := c.KubectlInput(ctx, string(text), "create", "-f", "-"); err != nil {
			return err
		}
		if err := lab.WaitEstablished(ctx, c, "--all"); err != nil {
			return err
		}
	}
	return nil
}

// prepareNode gives a node what virt-handler gives it: labels, the devices of its device plugins, and a sign of
// life, which is dated ahead because nothing renews it.
func prepareNode(ctx context.Context, c *cluster.Cluster, node string) error {
	if _, err := c.Kubectl(ctx, "label", "node", node, "--overwrite", "kubevirt.io/schedulable=true",
		"machine-type.node.kubevirt.io/q35=true", "cpu-model.node.kubevirt.io/Penryn=true"); err != nil {
		return err
	}
	alive := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	if _, err := c.Kubectl(ctx, "annotate", "node", node, "--overwrite", "kubevirt.io/heartbeat="+alive); err != nil {
		return err
	}
	const devices = `{"status":{"capacity":{"devices.kubevirt.io/kvm":"100","devices.kubevirt.io/tun":"100","devices.kubevirt.io/vhost-net":"100"}}}`
	_, err := c.Kubectl(ctx, "patch", "node", node, "--subresource=status", "--type=merge", "-p", devices)
	return err
}

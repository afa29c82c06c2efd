//go:build e2e

package upgrade

import (
	"strings"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// installed has the kinds of objects that nadra installs or creates.
const installed = "namespaces,clusterroles,clusterrolebindings,roles,rolebindings,deviceclasses,resourceslices,resourceclaims,resourceclaimtemplates," +
	"mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings,configmaps,leases,secrets"

// onNode lists nadra's files, and the content of its directory, which is a mount in test
// clusters.
const onNode = `ls -d /var/lib/nadra/* /run/cdi/net.nadra.dev* /var/lib/kubelet/plugins/net.nadra.dev* /var/lib/kubelet/plugins_registry/net.nadra.dev* 2>/dev/null; true`

// leave removes nadra from the cluster. nadra must refuse that while it is in use, and
// afterwards leave no trace but the networks, which belong to the users.
func (f *fixture) leave() {
	f.Helper()
	f.refused("smf", "uninstall", "--yes")
	f.served(v1alpha1.OwnerNadra, f.nodes()...) // nobody was touched
	f.Kubectl("-n", namespace, "delete", "deployments,statefulsets,daemonsets", "--all", "--cascade=foreground", "--timeout=120s")
	f.nothingLeft()
	// Multus never deletes the files of its own default network, which cleanup lists after
	// ten minutes. The test may take longer.
	f.Log(f.nadra("cleanup", "--older-than=1h"))
	f.refused("nadra.dev/owner", "uninstall", "--yes")
	f.Kubectl("label", "namespace", namespace, "nadra.dev/owner-")
	f.Kubectl("label", "nodes", "--all", "nadra.dev/owner-")
	f.Log(f.nadra("uninstall", "--dry-run=server"))
	f.Kubectl("-n", "nadra", "get", "daemonset", "nadra-node") // it is still there
	f.Log(f.nadra("uninstall", "--yes"))

	for name := range strings.Lines(f.Kubectl("get", installed, "-A", "-o", "name")) {
		if strings.Contains(name, "nadra") {
			f.Errorf("left of nadra: %s", name)
		}
	}
	for _, n := range f.Kubernetes() {
		for key := range n.Labels {
			f.noneOfNadra("label", key)
		}
		for key := range n.Annotations {
			f.noneOfNadra("annotation", key)
		}
	}
	for _, n := range f.Cluster.Nodes() {
		left, err := n.Exec(f.Ctx, "sh", "-c", onNode)
		f.Must(err)
		if text := strings.TrimSpace(string(left)); text != "" {
			f.Errorf("left of nadra on %s: %s", n.Name(), text)
		}
	}
	f.Must(f.Apply(f.Ctx, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: after, namespace: core}, spec: {replicas: 2, selector: {matchLabels: {app: after}},
template: {metadata: {labels: {app: after}}, spec: {terminationGracePeriodSeconds: 1,
containers: [{name: main, image: "localhost/test:1", imagePullPolicy: Never, command: [/bin/sleep, infinity]}]}}}}`))
	f.Kubectl("-n", namespace, "rollout", "status", "deployment/after", "--timeout=60s")
	f.Kubectl("delete", "namespace", namespace, "--timeout=120s")
	f.nothingLeft()
}

func (f *fixture) noneOfNadra(kind, key string) {
	f.Helper()
	if strings.Contains(key, "nadra.dev") {
		f.Errorf("left of nadra on a node: %s %s", kind, key)
	}
}

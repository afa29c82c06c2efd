//go:build e2e

package dropin

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/conformance/compare"
	"github.com/nadra-dev/nadra/test/lab"
)

// asked requests three networks: one with an address that host-local picks, one with
// addresses and a MAC of the annotation, and one with addresses of the NAD.
const asked = `[{"name":"lan"},` +
	`{"name":"store","interface":"store0","ips":["10.71.0.7/24","fd00:71::7/64"],"mac":"02:00:00:71:00:07"},` +
	`{"name":"fixed"}]`

const askedNetworks = 3

// restart replaces the pods of a Deployment of one, as `kubectl rollout restart`
// does, and returns the new pod.
func (f *fixture) restart(name string) *corev1.Pod {
	f.Helper()
	f.Kubectl("rollout", "restart", "deployment/"+name)
	f.Must(rolledOut(f.Ctx, f.NS, "deployment/"+name))
	return f.pods(name, 1)[0]
}

// TestSameDeploymentOnBothSides moves a Deployment to nadra and back by the label of its
// namespace, and compares its pods.
func TestSameDeploymentOnBothSides(t *testing.T) {
	f := setup(t, "switch")
	f.networks()
	f.ApplyYAML(lab.Workload("Deployment", "app", "strategy: {type: Recreate}", asked, ""))
	pod := f.pods("app", 1)[0]
	f.servedBy(api.OwnerMultus, pod, askedNetworks)
	before := f.side(pod, "net1")
	f.compares(before, "lan", "store0 10.71.0.7/24", "store0 fd00:71::7/64", "net3 10.72.0.9/24", "10.171.0.0/16",
		"10.170.0.0/16", "ipv4/conf/store0/arp_filter", "02:00:00:71:00:07")

	f.owner(api.OwnerNadra)
	pod = f.restart("app")
	f.servedBy(api.OwnerNadra, pod, askedNetworks)
	f.equal("Multus, then nadra", before, f.side(pod, "net1"), asked)

	f.owner(api.OwnerMultus)
	pod = f.restart("app")
	f.servedBy(api.OwnerMultus, pod, askedNetworks)
	f.equal("Multus, and again Multus", before, f.side(pod, "net1"), asked)
}

// compares checks that the description of a pod contains all of these texts, so that the
// comparison covers them.
func (f *fixture) compares(s compare.Side, all ...string) {
	f.Helper()
	text, err := json.Marshal(s)
	f.Must(err)
	for _, want := range all {
		if !strings.Contains(string(text), want) {
			f.Errorf("%s is not in what is compared:\n%s", want, text)
		}
	}
}

// TestDaemonSetOnBothNodes runs a DaemonSet. The owner of each node must serve its pod.
func TestDaemonSetOnBothNodes(t *testing.T) {
	f := setup(t, "daemons")
	f.networks()
	f.ApplyYAML(lab.Workload("DaemonSet", "agent", "", asked, ""))
	pods := f.pods("agent", 2)
	f.servedBy(api.OwnerMultus, pods[0], askedNetworks)
	f.servedBy(api.OwnerNadra, pods[1], askedNetworks)
	f.equal("the pods of the two nodes", f.side(pods[0], "net1"), f.side(pods[1], "net1"), asked)
}

// TestNodeChangesHands moves a whole node to nadra and back by its label, under running pods: nadra adopts pods of
// Multus without touching them, deletes the networks of one that ends, and gives the other one back. Pods that are
// created meanwhile are nadra's.
func TestNodeChangesHands(t *testing.T) {
	f := setup(t, "hands")
	f.networks()
	node, other, removed := f.multus, f.nadra, false
	t.Cleanup(func() { // before the fixture's own
		if removed {
			f.Must(node.Multus().Install(f.Ctx, multusPrograms))
		}
		f.Must(f.Label(f.Ctx, "node/"+node.Name(), ""))
		f.Must(f.Label(f.Ctx, "node/"+other.Name(), api.OwnerNadra))
	})
	f.ApplyYAML(lab.Workload("Deployment", "app", "strategy: {type: Recreate}", asked, ""))
	f.ApplyYAML(lab.Workload("Deployment", "stays", "", `[{"name":"lan"},{"name":"store","ips":["10.71.0.8/24"]}]`, ""))
	const staysNetworks, taken = 2, multusMemory + "/nadra"
	pod, stays := f.pods("app", 1)[0], f.pods("stays", 1)[0]
	f.servedBy(api.OwnerMultus, pod, askedNetworks)
	f.servedBy(api.OwnerMultus, stays, staysNetworks)
	before, staysBefore := f.side(pod, "net1"), f.view(stays)

	f.Must(node.Multus().Remove(f.Ctx))
	removed = true
	f.Must(f.Label(f.Ctx, "node/"+node.Name(), api.OwnerNadra))
	f.Must(f.Label(f.Ctx, "node/"+other.Name(), "")) // so that the pod comes here
	f.Must(publishing(f.Ctx, other, false))
	f.held(pod, true, taken)
	f.held(stays, true, taken)
	f.unchanged("the adoption", stays, staysBefore)
	f.nadra = node
	f.owner(api.OwnerNadra)
	pod = f.restart("app")
	f.servedBy(api.OwnerNadra, pod, askedNetworks)
	f.equal("Multus, then nadra on the same node", before, f.side(pod, "net1"), asked)

	f.empty("app")
	f.Must(f.Label(f.Ctx, "node/"+node.Name(), api.OwnerReturning))
	f.held(stays, true, multusMemory) // nadra keeps its record until the runtime calls Multus
	f.Must(node.Multus().Install(f.Ctx, multusPrograms))
	removed = false
	f.Must(f.Label(f.Ctx, "node/"+node.Name(), ""))
	f.Must(f.Label(f.Ctx, "node/"+other.Name(), api.OwnerNadra))
	f.Must(publishing(f.Ctx, node, false))
	f.held(stays, false, multusMemory)
	f.servedBy(api.OwnerMultus, stays, staysNetworks)
	f.unchanged("the return to Multus", stays, staysBefore)
	f.owner(api.OwnerMultus)
	f.Kubectl("scale", "deployment/app", "--replicas=1")
	pod = f.pods("app", 1)[0]
	f.servedBy(api.OwnerMultus, pod, askedNetworks)
	f.equal("Multus, and again Multus", before, f.side(pod, "net1"), asked)
}

// held waits until nadra has a record of a pod's sandbox, or none, and Multus' file of it is in this folder.
func (f *fixture) held(p *corev1.Pod, recorded bool, folder string) {
	f.Helper()
	id := f.sandbox(p).ID
	f.Eventually(time.Minute, func(context.Context) error {
		has := f.naming(f.NodeOf(p), nadraMemory, id)
		files := slices.DeleteFunc(f.naming(f.NodeOf(p), multusMemory, id), func(path string) bool { return filepath.Base(path) != id })
		if (len(has) > 0) != recorded || !slices.Equal(files, []string{folder + "/" + id}) {
			return fmt.Errorf("of pod %s nadra has %q, want any: %t; Multus' files are %q, want one in %s", p.Name, has, recorded, files, folder)
		}
		return nil
	})
}

// empty scales a Deployment to zero.
func (f *fixture) empty(name string) {
	f.Helper()
	f.Kubectl("scale", "deployment/"+name, "--replicas=0")
	f.Must(f.noPods(name))
}

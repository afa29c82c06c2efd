//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nadra-dev/nadra/test/cluster"
)

// TestPodsOfThinMultusAreAdopted gives a node with a thin Multus to nadra, back, and to nadra again, under
// pods with configurations of all versions of CNI, chains, a default route and a device of a device
// plugin. One pod has a damaged file of Multus, one ends while nobody serves the node, one is attached by
// nadra without a claim, and the driver is killed in between.
func TestPodsOfThinMultusAreAdopted(t *testing.T) {
	t.Cleanup(func() { removeMultus(t) }) // when the pods are gone
	a := &adopted{fixture: setup(t, "adopted"), pods: map[string]*corev1.Pod{}, before: map[string]string{}}
	a.setUp()

	a.Must(a.node.Multus().HideThin(a.Ctx))
	a.end("ends")
	a.sh("truncate -s 20 " + multusDir + "/" + a.sandbox("damaged"))
	a.toNadra("adopted")
	a.eventuallyListed("addresses, without those of the pod that has ended", bridgeLeases, 9)
	a.recordsDevice()
	a.sh("kill -9 " + a.driverPIDs())
	a.Must(a.WaitDriver(a.Ctx))
	a.unchanged("after the driver was killed")
	a.restartRuntime(slices.Collect(maps.Keys(a.pods)))
	a.unchanged("after the runtime was restarted")
	a.end("one")
	a.eventuallyListed("addresses, without those of the adopted pod that has ended", bridgeLeases, 7)

	a.start("own", "old,newest@second", func(p *corev1.Pod) { p.Spec.NodeName = a.node.Name() })
	own := a.sandbox("own")
	a.eventuallyListed("addresses, with those of the pod that nadra has attached", bridgeLeases, 9)
	a.toMultus()
	a.restartRuntime(slices.Collect(maps.Keys(a.pods)))
	a.unchanged("after the runtime was restarted under Multus")
	a.end("route")
	a.end("own")
	a.eventuallyListed("addresses, without those of the pods that Multus has deleted", bridgeLeases, 6)
	a.eventuallyListed("files of the pod that was handed over", "find "+multusDir+" "+a.at.State+"/cni /var/lib/cni/results -name '*"+own+"*'", 0)

	a.Must(a.node.Multus().HideThin(a.Ctx))
	a.toNadra("adopted again")
	for _, name := range slices.Collect(maps.Keys(a.pods)) {
		a.end(name)
	}
	a.eventuallyListed("addresses", bridgeLeases, 0)
	a.eventuallyListed("sandboxes that nadra has taken", "ls "+takenDir, 0)
	a.eventuallyListed("files of Multus", "find "+multusDir+" -type f", 0)
}

const (
	// multusDir is Multus' directory, takenDir that of the sandboxes that nadra has taken.
	multusDir = "/var/lib/cni/multus"
	takenDir  = multusDir + "/nadra"
	// bridgeLeases lists host-local's bridgeLeases of the adopted pods.
	bridgeLeases = "ls -d /var/lib/cni/networks/*/10.84.0.*"
)

// adopted is a test of adoption, with its pods and what is in their network namespaces.
type adopted struct {
	*fixture
	pods   map[string]*corev1.Pod
	before map[string]string
	plugin *fakePlugin
}

// setUp gives the node to a thin Multus, which attaches pods.
func (a *adopted) setUp() {
	a.Helper()
	a.bridge("br-own")
	a.nad("old", `{"cniVersion":"0.3.1","type":"bridge","bridge":"br-own","ipam":{"type":"host-local","subnet":"10.84.0.0/24"}}`)
	a.nad("chain", `{"cniVersion":"1.0.0","plugins":[{"type":"bridge","bridge":"br-own","ipam":{"type":"host-local","subnet":"10.84.0.0/24"}},`+
		`{"type":"sbr"},{"type":"tuning","mtu":1400}]}`)
	a.nad("newest", `{"cniVersion":"1.1.0","type":"bridge","bridge":"br-own","capabilities":{"mac":true},"ipam":{"type":"host-local","subnet":"10.84.0.0/24"}}`)
	a.plugin = a.devicePlugin("dev-a", "dev-b")
	a.Must(a.Apply(a.Ctx, `{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition,
metadata: {name: pooled, namespace: adopted, annotations: {k8s.v1.cni.cncf.io/resourceName: `+pluginResource+`}},
spec: {config: '`+ownConf+`'}}`))
	a.hasAllocatable(pluginResource, "2")
	a.withArgs("--owned-nodes=labelled")
	program, err := cluster.BuildMultus(a.Ctx, os.Stderr)
	a.Must(err)
	a.Must(a.node.Multus().InstallThin(a.Ctx, program))

	a.start("one", `[{"name":"old"},{"name":"chain","interface":"second"}]`, nil)
	a.start("route", `[{"name":"newest","mac":"02:00:00:00:84:01","default-route":["10.84.0.1"]}]`, nil)
	a.start("damaged", "old,newest", nil)
	a.start("ends", "chain", nil)
	a.start("last", "old,chain,newest", nil)
	a.start("device", "pooled", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{pluginResource: resource.MustParse("1")}
	})
	a.start("plain", "", nil)
}

// start creates a pod, and waits until it is ready.
func (a *adopted) start(name, networks string, change func(*corev1.Pod)) {
	a.Helper()
	a.annotated(name, networks, func(p *corev1.Pod) {
		telling(p)
		if change != nil {
			change(p)
		}
	})
	pod, err := a.Ready(a.Ctx, a.NS, name, 2*time.Minute)
	a.Must(err)
	a.pods[name], a.before[name] = pod, a.netns(pod)
}

// end deletes a pod.
func (a *adopted) end(name string) {
	a.Helper()
	a.Must(a.DeletePod(a.Ctx, a.NS, name))
	delete(a.pods, name)
}

// sandbox returns the ID of a pod's sandbox.
func (a *adopted) sandbox(name string) string {
	a.Helper()
	sandbox, err := a.node.PodSandbox(a.Ctx, string(a.pods[name].UID))
	a.Must(err)
	return sandbox.ID
}

// unchanged checks that nothing has changed in the pods' network namespaces.
func (a *adopted) unchanged(when string) {
	a.Helper()
	for name, pod := range a.pods {
		same(a.T, "the network namespace of pod "+name+" "+when, a.before[name], a.netns(pod))
	}
}

// toNadra gives the node to nadra, and waits until it has adopted all pods.
func (a *adopted) toNadra(when string) {
	a.Helper()
	a.label("nadra.dev/owner=nadra")
	a.eventuallyListed("sandboxes that Multus has", "find "+multusDir+" -maxdepth 1 -type f", 0)
	a.eventuallyListed("sandboxes that nadra has taken", "ls "+takenDir, len(a.pods))
	a.unchanged("when it was " + when)
}

// toMultus gives the node to Multus, and waits until it has all pods.
func (a *adopted) toMultus() {
	a.Helper()
	_, err := a.Cluster.Kubectl(a.Ctx, "label", "node", a.node.Name(), "nadra.dev/owner-")
	a.Must(err)
	a.eventuallyListed("sandboxes that Multus has", "find "+multusDir+" -maxdepth 1 -type f", len(a.pods))
	a.eventuallyListed("sandboxes that nadra has taken", "ls "+takenDir, 0)
	a.Must(a.node.Multus().ShowThin(a.Ctx))
	a.unchanged("when it was given back")
	a.eventuallyListed("records", "ls "+a.at.State+"/claims", 0)
}

// recordsDevice checks that the record of the pod with a device names the device.
func (a *adopted) recordsDevice() {
	a.Helper()
	record := a.sh("cat " + a.at.State + "/claims/" + string(a.pods["device"].UID) + ".json")
	if given := a.plugin.given(); len(given) != 1 || !strings.Contains(record, `"deviceID":"`+given[0]+`"`) {
		a.Errorf("the record of a pod with device %q: %s", given, record)
	}
}

// removeMultus removes Multus from the node.
func removeMultus(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := theLab.Cluster.Node(1).Multus().RemoveThin(ctx); err != nil {
		t.Error(err)
	}
}

// eventuallyListed waits until a command on the node prints that many lines.
func (f *fixture) eventuallyListed(what, command string, want int) {
	f.Helper()
	f.Eventually(time.Minute, func(ctx context.Context) error {
		out, err := f.node.Exec(ctx, "sh", "-c", command+" 2>/dev/null; true")
		if lines := strings.Fields(string(out)); err == nil && len(lines) != want {
			err = fmt.Errorf("%s: %d, want %d: %q", what, len(lines), want, lines)
		}
		return err
	})
}

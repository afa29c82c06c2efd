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
	"github.com/nadra-dev/nadra/test/lab"
)

// multusConf is the runtime's configuration of Multus, and hiddenConf where the runtime does not see it.
const (
	multusConf = "/etc/cni/net.d/00-multus.conf"
	hiddenConf = "/var/tmp/00-multus.conf"
)

// TestPodsOfThinMultusAreAdopted gives a node with a thin Multus to nadra, back, and to nadra again, under
// pods with configurations of all versions of CNI, chains, a default route and a device of a device
// plugin. One pod has a damaged file of Multus, one ends while nobody serves the node, and the driver is
// killed in between.
func TestPodsOfThinMultusAreAdopted(t *testing.T) {
	t.Cleanup(func() { removeMultus(t) }) // when the pods are gone
	f := setup(t, "adopted")
	f.bridge("br-own")
	f.nad("old", `{"cniVersion":"0.3.1","type":"bridge","bridge":"br-own","ipam":{"type":"host-local","subnet":"10.84.0.0/24"}}`)
	f.nad("chain", `{"cniVersion":"1.0.0","plugins":[{"type":"bridge","bridge":"br-own","ipam":{"type":"host-local","subnet":"10.84.0.0/24"}},`+
		`{"type":"sbr"},{"type":"tuning","mtu":1400}]}`)
	f.nad("newest", `{"cniVersion":"1.1.0","type":"bridge","bridge":"br-own","capabilities":{"mac":true},"ipam":{"type":"host-local","subnet":"10.84.0.0/24"}}`)
	plugin := f.devicePlugin("dev-a", "dev-b")
	f.Must(f.Apply(f.Ctx, `{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition,
metadata: {name: pooled, namespace: adopted, annotations: {k8s.v1.cni.cncf.io/resourceName: `+pluginResource+`}},
spec: {config: '`+ownConf+`'}}`))
	f.hasAllocatable(pluginResource, "2")
	f.withArgs("--owned-nodes=labelled")
	program, err := cluster.BuildMultus(f.Ctx, os.Stderr)
	f.Must(err)
	f.Must(f.node.Multus().InstallThin(f.Ctx, program))

	pods := map[string]*corev1.Pod{}
	for name, networks := range map[string]string{
		"one":     `[{"name":"old"},{"name":"chain","interface":"second"}]`,
		"route":   `[{"name":"newest","mac":"02:00:00:00:84:01","default-route":["10.84.0.1"]}]`,
		"damaged": "old,newest",
		"ends":    "chain",
		"last":    "old,chain,newest",
		"device":  "pooled",
		"plain":   "",
	} {
		f.annotated(name, networks, func(p *corev1.Pod) {
			telling(p)
			if name == "device" {
				p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{pluginResource: resource.MustParse("1")}
			}
		})
		pods[name], err = f.Ready(f.Ctx, f.NS, name, 2*time.Minute)
		f.Must(err)
	}
	before := map[string]string{}
	for name, pod := range pods {
		before[name] = f.netns(pod)
	}
	unchanged := func(when string) {
		t.Helper()
		for name, pod := range pods {
			same(t, "the network namespace of pod "+name+" "+when, before[name], f.netns(pod))
		}
	}

	f.hideMultus(true)
	f.Must(f.DeletePod(f.Ctx, f.NS, "ends"))
	delete(pods, "ends")
	sandbox, err := f.node.PodSandbox(f.Ctx, string(pods["damaged"].UID))
	f.Must(err)
	f.sh("truncate -s 20 /var/lib/cni/multus/" + sandbox.ID)
	f.label("nadra.dev/owner=nadra")
	f.eventuallyListed("sandboxes that Multus has", "find /var/lib/cni/multus -maxdepth 1 -type f", 0)
	f.eventuallyListed("sandboxes that nadra has taken", "ls /var/lib/cni/multus/nadra", len(pods))
	f.eventuallyListed("addresses, without those of the pod that has ended", "ls -d /var/lib/cni/networks/*/10.84.0.*", 9)
	unchanged("when it was adopted")
	record := f.sh("cat " + f.at.State + "/claims/" + string(pods["device"].UID) + ".json")
	if given := plugin.given(); len(given) != 1 || !strings.Contains(record, `"deviceID":"`+given[0]+`"`) {
		t.Errorf("the record of a pod with device %q: %s", given, record)
	}
	f.sh("kill -9 " + f.driverPIDs())
	f.Must(f.WaitDriver(f.Ctx))
	unchanged("after the driver was killed")
	f.restartRuntime(slices.Collect(maps.Keys(pods)))
	unchanged("after the runtime was restarted")
	f.Must(f.DeletePod(f.Ctx, f.NS, "one"))
	delete(pods, "one")
	f.eventuallyListed("addresses, without those of the adopted pod that has ended", "ls -d /var/lib/cni/networks/*/10.84.0.*", 7)

	if _, err := f.Cluster.Kubectl(f.Ctx, "label", "node", f.node.Name(), "nadra.dev/owner-"); err != nil {
		t.Fatal(err)
	}
	f.eventuallyListed("sandboxes that nadra has taken", "ls /var/lib/cni/multus/nadra", 0)
	f.hideMultus(false)
	unchanged("when it was given back")
	f.eventuallyListed("records", "ls "+f.at.State+"/claims", 0)
	f.Must(f.DeletePod(f.Ctx, f.NS, "route"))
	delete(pods, "route")
	f.eventuallyListed("addresses, without those of the pod that Multus has deleted", "ls -d /var/lib/cni/networks/*/10.84.0.*", 6)

	f.hideMultus(true)
	f.label("nadra.dev/owner=nadra")
	f.eventuallyListed("sandboxes that nadra has taken", "ls /var/lib/cni/multus/nadra", len(pods))
	unchanged("when it was adopted again")
	for name := range pods {
		f.Must(f.DeletePod(f.Ctx, f.NS, name))
	}
	f.eventuallyListed("addresses", "ls -d /var/lib/cni/networks/*/10.84.0.*", 0)
	f.eventuallyListed("sandboxes that nadra has taken", "ls /var/lib/cni/multus/nadra", 0)
	f.eventuallyListed("files of Multus", "find /var/lib/cni/multus -type f", 0)
}

// removeMultus removes Multus from the node, and waits until the runtime does without it.
func removeMultus(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	node := theLab.Cluster.Node(1)
	_, err := node.Exec(ctx, "rm", "-rf", multusConf, hiddenConf, "/var/lib/cni/multus")
	if err == nil {
		err = usesMultus(ctx, node, false)
	}
	if err != nil {
		t.Errorf("removing Multus from the node: %v", err)
	}
}

// hideMultus takes the runtime's configuration of Multus away, or gives it back, and waits until the
// runtime follows.
func (f *fixture) hideMultus(hide bool) {
	f.Helper()
	from, to := hiddenConf, multusConf
	if hide {
		from, to = to, from
	}
	f.sh("mv " + from + " " + to)
	f.Must(usesMultus(f.Ctx, f.node, !hide))
}

// usesMultus waits until the runtime uses Multus, or does not.
func usesMultus(ctx context.Context, node *cluster.Node, want bool) error {
	return lab.Eventually(ctx, time.Minute, func(ctx context.Context) error {
		uses, err := node.Runtime().Uses(ctx, "multus")
		if err == nil && uses != want {
			err = fmt.Errorf("the runtime uses Multus: %t", uses)
		}
		return err
	})
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

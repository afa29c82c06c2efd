//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/desk/cli"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestPodsWithoutAClaim checks that pods which cannot have a claim get the networks of their
// annotation on a node of nadra: a pod with spec.nodeName and a static pod.
func TestPodsWithoutAClaim(t *testing.T) {
	f := ownedBlue(t, "direct")

	f.onNode("web", "blue,blue@second")
	pods := []string{"web", f.static("static", "blue")}
	for _, name := range pods {
		pod, err := f.Ready(f.Ctx, f.NS, name, time.Minute)
		f.Must(err)
		f.runsOn(name, "net1", "10.84.0.")
		f.Eventually(30*time.Second, f.podEvent(name, reason.EventAttachedWithoutClaim+": ", "direct/blue", f.node.Name()))
		f.Eventually(time.Minute, func(ctx context.Context) error { return f.listsInterface(ctx, name, "net1") })
		if len(pod.Spec.ResourceClaims) > 0 {
			t.Errorf("pod %s has claims", name)
		}
		row := regexp.MustCompile(`(?m)^` + name + ` +net1 +direct/blue +Attached +10\.84\.0\.`)
		f.Eventually(time.Minute, f.printing(cli.CodeOK, row, "get", "attachments"))
	}
	f.Eventually(time.Minute, f.printing(cli.CodeOK, regexp.MustCompile(`(?s)without a claim: the scheduler does\s+not\s+know.*ok +attachment +direct/blue net1 +as net1`), "explain", "pod", "web"))
	f.runsOn("web", "second", "10.84.0.")

	web, err := f.Kube.CoreV1().Pods(f.NS).Get(f.Ctx, "web", metav1.GetOptions{})
	f.Must(err)
	before := f.netns(web)
	f.sh("kill -9 " + f.driverPIDs())
	f.Must(f.WaitDriver(f.Ctx))
	same(t, "the network namespace after the driver was killed", before, f.netns(web))
	f.sh(`for p in $(ls /proc | grep '^[0-9]'); do grep -qz '^HOSTNAME=web$' /proc/$p/environ 2>/dev/null && kill -9 $p; done; true`)
	f.Eventually(time.Minute, func(ctx context.Context) error { return f.restarted(ctx, "web") })
	same(t, "the network namespace after the container was killed", before, f.netns(web))

	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))
	f.sh("rm -f " + staticPods + "/static.json")
	f.Eventually(time.Minute, func(context.Context) error {
		if left := f.addresses(); left != "" {
			return fmt.Errorf("host-local still has %q", left)
		}
		return nil
	})
	f.Eventually(10*time.Second, func(context.Context) error {
		if left := f.sh(`grep -l '"direct"' ` + f.at.State + "/claims/*.json 2>/dev/null || true"); left != "" {
			return fmt.Errorf("records are left: %s", left)
		}
		return nil
	})
}

// TestNamespaceRefusesPodsWithoutAClaim checks that a namespace may refuse what its node attaches.
func TestNamespaceRefusesPodsWithoutAClaim(t *testing.T) {
	f := ownedBlue(t, "strict")
	_, err := f.Cluster.Kubectl(f.Ctx, "label", "namespace", f.NS, "nadra.dev/unclaimed=refuse")
	f.Must(err)
	f.onNode("web", "blue")
	f.Eventually(time.Minute, f.podEvent("web", reason.EventFailedNoClaim+": "+lab.Code(reason.NoClaim), "nadra.dev/unclaimed"))
	f.hasNotRun("web")
	_, err = f.Cluster.Kubectl(f.Ctx, "label", "namespace", f.NS, "nadra.dev/unclaimed-")
	f.Must(err)
	_, err = f.Ready(f.Ctx, f.NS, "web", time.Minute)
	f.Must(err)
	f.runsOn("web", "net1", "10.84.0.")
}

// TestPodsWithoutAClaimAreAttachedLate checks that a pod which was started while the driver was away
// gets its networks when the driver is back: without a claim nothing holds its containers. The pod has
// the network-status of an earlier sandbox, as after a reboot of a node that was Multus'.
func TestPodsWithoutAClaimAreAttachedLate(t *testing.T) {
	f := ownedBlue(t, "late")

	back := f.withoutDriver()
	f.onNode("web", "blue")
	_, err := f.Ready(f.Ctx, f.NS, "web", time.Minute)
	f.Must(err)
	links, err := f.Exec(f.Ctx, f.NS, "web", "ip", "-o", "link")
	f.Must(err)
	if strings.Contains(links, "net1") {
		t.Errorf("without a driver the pod has net1:\n%s", links)
	}
	f.Kubectl("-n", f.NS, "annotate", "pod/web", nadv1.NetworkStatusAnnot+`=[{"name":"late/blue","interface":"net5","ips":["192.0.2.5"]}]`)
	back()
	f.Eventually(time.Minute, func(ctx context.Context) error { return f.listsInterface(ctx, "web", "net1") })
	f.runsOn("web", "net1", "10.84.0.")
	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))
	same(t, "addresses", "", f.addresses())
}

// TestRequiredDriverHoldsPodsWithoutAClaim checks that a pod which requires the driver, by NRI's
// annotation, does not start while the driver is away, and starts with its networks when it is back.
func TestRequiredDriverHoldsPodsWithoutAClaim(t *testing.T) {
	f := ownedBlue(t, "requires")

	back := f.withoutDriver()
	f.annotated("web", "blue", func(p *corev1.Pod) {
		p.Spec.NodeName = f.node.Name()
		p.Annotations["required-plugins.noderesource.dev"] = "[nadra]"
	})
	f.Eventually(time.Minute, f.podEvent("web", "Failed: ", `required plugin "nadra" not present`))
	f.hasNotRun("web")
	back()
	_, err := f.Ready(f.Ctx, f.NS, "web", 2*time.Minute)
	f.Must(err)
	f.runsOn("web", "net1", "10.84.0.")
	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))
	same(t, "addresses", "", f.addresses())
}

// ownedBlue sets up a test on a node of nadra, as drop-in has it, with network blue.
func ownedBlue(t *testing.T, namespace string) *fixture {
	t.Helper()
	f := setup(t, namespace)
	f.bridge("br-own")
	f.nad("blue", ownConf)
	f.withArgs("--owned-nodes=labelled")
	f.label("nadra.dev/owner=nadra")
	f.Must(f.Published(f.Ctx, namespace+"/blue"))
	return f
}

// onNode creates a pod with spec.nodeName, as users of Multus write it.
func (f *fixture) onNode(name, networks string) {
	f.Helper()
	f.annotated(name, networks, func(p *corev1.Pod) { p.Spec.NodeName = f.node.Name() })
}

// listsInterface returns an error unless the pod's network-status has the interface.
func (f *fixture) listsInterface(ctx context.Context, name, ifName string) error {
	statuses, err := f.NetworkStatus(ctx, f.NS, name)
	if err == nil && !slices.ContainsFunc(statuses, func(s nadv1.NetworkStatus) bool { return s.Interface == ifName }) {
		err = fmt.Errorf("network-status of pod %s lacks %s: %+v", name, ifName, statuses)
	}
	return err
}

// restarted returns an error unless the pod is ready and its container was restarted.
func (f *fixture) restarted(ctx context.Context, name string) error {
	pod, err := f.Kube.CoreV1().Pods(f.NS).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if s := pod.Status.ContainerStatuses[0]; s.RestartCount == 0 || !s.Ready {
		return fmt.Errorf("restarts: %d, ready: %t", s.RestartCount, s.Ready)
	}
	return nil
}

// withoutDriver removes the driver from its node until back is called, or the test ends.
func (f *fixture) withoutDriver() (back func()) {
	f.Helper()
	selector := func(value string) {
		f.Helper()
		out, err := f.Cluster.Kubectl(f.Ctx, "-n", "nadra", "patch", "daemonset/nadra-node", "--type=merge", "-p",
			`{"spec":{"template":{"spec":{"nodeSelector":{"nadra.dev/none":`+value+`}}}}}`)
		if err != nil {
			f.Fatalf("%v\n%s", err, out)
		}
	}
	selector(`"none"`)
	f.Eventually(time.Minute, func(context.Context) error {
		if pids := f.driverPIDs(); pids != "" {
			return fmt.Errorf("the driver still runs: %s", pids)
		}
		return nil
	})
	back = func() {
		f.Helper()
		selector("null")
		f.Must(f.WaitDriver(f.Ctx))
	}
	f.Cleanup(back)
	return back
}

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/lab"
)

const ownConf = `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-own","ipam":{"type":"host-local","subnet":"10.84.0.0/24"}}`

// TestOwnedNodes checks that the label of a node decides whether its driver publishes, and
// that running and allocated pods do not change.
func TestOwnedNodes(t *testing.T) {
	f := setup(t, "owned")
	f.bridge("br-own")
	f.nad("blue", ownConf)
	f.Must(f.Published(f.Ctx, "owned/blue"))
	early := f.start("early", lab.Want{Network: "blue"})
	before := f.netns(early)

	f.withArgs("--owned-nodes=labelled")
	f.withdrawn("owned/blue")
	f.runsOn("early", "net1", "10.84.0.")
	same(t, "the network namespace of a pod from before the switch", before, f.netns(early))
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "waits", lab.Want{Network: "blue"})))
	_, err := f.CreatePod(f.Ctx, lab.Pod(f.NS, "waits", "waits"))
	f.Must(err)
	f.Eventually(2*time.Minute, f.podEvent("waits", "FailedScheduling"))
	f.Must(f.DeletePod(f.Ctx, f.NS, "early"))
	same(t, "addresses", "", f.addresses())

	f.label("nadra.dev/owner=nadra")
	labelled := time.Now()
	f.Must(f.Published(f.Ctx, "owned/blue"))
	t.Logf("published %s after the label came", time.Since(labelled).Round(10*time.Millisecond))
	f.nodeEvent("NetworksOwned", "nadra.dev/owner=nadra")
	pod, err := f.Ready(f.Ctx, f.NS, "waits", time.Minute)
	f.Must(err)
	during := f.netns(pod)

	f.label("nadra.dev/owner=multus")
	labelled = time.Now()
	f.withdrawn("owned/blue")
	t.Logf("withdrawn %s after the label went", time.Since(labelled).Round(10*time.Millisecond))
	f.nodeEvent("NetworksReleased", "nadra.dev/owner=nadra")
	f.runsOn("waits", "net1", "10.84.0.")
	same(t, "the network namespace after the label went", during, f.netns(pod))
	f.sh("kill -9 " + f.driverPIDs()) // the next one finds the label as it is, and the pod
	f.withdrawn("owned/blue")
	same(t, "the network namespace after a restart", during, f.netns(pod))
	f.Must(f.DeletePod(f.Ctx, f.NS, "waits"))
	same(t, "addresses", "", f.addresses())
}

// TestUnclaimedPodsAreRefused checks that a node of nadra with --unclaimed=refuse refuses a pod that
// names networks and has no claim, also a static one, and runs others.
func TestUnclaimedPodsAreRefused(t *testing.T) {
	f := setup(t, "unclaimed")
	f.nad("blue", ownConf)
	f.withArgs("--owned-nodes=labelled", "--unclaimed=refuse", "--exempt-pods=unclaimed/exempt-*")
	f.annotated("old", "blue", nil)
	old, err := f.Ready(f.Ctx, f.NS, "old", time.Minute) // on a node of Multus
	f.Must(err)

	f.label("nadra.dev/owner=nadra")
	f.Must(f.Published(f.Ctx, "unclaimed/blue"))
	running := f.sandboxProcesses()
	f.annotated("web", "blue", nil)
	f.annotated("broken", `[{"name":"blue"`, nil)
	f.annotated("exempt-1", "blue", nil)
	f.annotated("host", "blue", func(p *corev1.Pod) { p.Spec.HostNetwork = true })
	f.annotated("blank", " ", nil)
	for _, allowed := range []string{"exempt-1", "host", "blank"} {
		_, err := f.Ready(f.Ctx, f.NS, allowed, time.Minute)
		f.Must(err)
	}
	static := f.static("static", "blue")
	noClaim := lab.Code(reason.NoClaim)
	why := []string{"unclaimed/blue", f.node.Name(), "nadra.dev/owner=nadra", "--exempt-pods"}
	for pod, parts := range map[string][]string{
		"web":    slices.Concat(why, []string{"unclaimed/web", "kubectl nadra convert"}),
		"broken": {"unclaimed/broken", lab.Code(reason.AnnotationInvalid), f.node.Name()},
		static:   slices.Concat(why, []string{"unclaimed/" + static, "DaemonSet"}),
	} {
		f.Eventually(time.Minute, f.podEvent(pod, append(parts, reason.EventFailedNoClaim+": "+noClaim)...))
		f.Eventually(time.Minute, f.podEvent(pod, append(parts, "FailedCreatePodSandBox: ", noClaim)...))
		f.hasNotRun(pod)
	}
	for _, e := range f.Events(f.Ctx, f.NS, "web") {
		t.Log(e)
	}

	// Running pods still run, and without the label the refused pods start.
	now, err := f.Ready(f.Ctx, f.NS, "old", 5*time.Second)
	f.Must(err)
	same(t, "sandbox of the pod from before", old.Status.PodIP, now.Status.PodIP)
	same(t, "restarts", 0, int(now.Status.ContainerStatuses[0].RestartCount))
	f.label("nadra.dev/owner-")

	// Each of these has one process of a sandbox: no refused sandbox has left another.
	pods := []string{"web", "broken", "exempt-1", "blank", static}
	for _, pod := range pods {
		_, err := f.Ready(f.Ctx, f.NS, pod, time.Minute)
		f.Must(err)
	}
	f.Eventually(30*time.Second, func(context.Context) error {
		now := slices.DeleteFunc(f.sandboxProcesses(), func(pid string) bool { return slices.Contains(running, pid) })
		if len(now) > len(pods) {
			return fmt.Errorf("the pods %q have the sandbox processes %q", pods, now)
		}
		return nil
	})
}

// sandboxProcesses returns the PIDs of the pause processes in namespaces of pods. A containerd
// before 2.2.6 and 2.3.3 leaves those of refused sandboxes running until their pod ends.
func (f *fixture) sandboxProcesses() []string {
	f.Helper()
	return strings.Fields(f.sh(`own=$(readlink /proc/self/ns/net); for p in /proc/[0-9]*; do
[ "$(cat $p/comm 2>/dev/null)" = pause ] && [ "$(readlink $p/ns/net)" != "$own" ] && echo ${p#/proc/}; done; true`))
}

// label labels the test's node until the test ends.
func (f *fixture) label(label string) {
	f.Helper()
	_, err := f.Cluster.Kubectl(f.Ctx, "label", "node", f.node.Name(), label, "--overwrite")
	f.Must(err)
	f.Cleanup(func() {
		if _, err := f.Cluster.Kubectl(f.Ctx, "label", "node", f.node.Name(), "nadra.dev/owner-"); err != nil {
			f.Error(err)
		}
	})
}

// withdrawn waits until the node's driver no longer publishes a NAD, and checks that it has no
// slice: autoscalers judge a node by its slices.
func (f *fixture) withdrawn(nad string) {
	f.Helper()
	f.Eventually(2*time.Minute, func(ctx context.Context) error { return f.notPublished(ctx, nad) })
	list, err := f.Kube.ResourceV1().ResourceSlices().List(f.Ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + lab.DriverName})
	f.Must(err)
	for _, s := range list.Items {
		f.Errorf("slice %s is still there, with %d devices", s.Name, len(s.Spec.Devices))
	}
}

// annotated creates a pod as users of Multus write it, without a claim.
func (f *fixture) annotated(name, networks string, change func(*corev1.Pod)) {
	f.Helper()
	pod := f.unclaimedPod(name, networks)
	if change != nil {
		change(pod)
	}
	_, err := f.CreatePod(f.Ctx, pod)
	f.Must(err)
}

func (f *fixture) unclaimedPod(name, networks string) *corev1.Pod {
	pod := lab.Pod(f.NS, name, "")
	pod.Annotations = map[string]string{nadv1.NetworkAttachmentAnnot: networks}
	pod.Spec.ResourceClaims, pod.Spec.Containers[0].Resources.Claims = nil, nil
	return pod
}

// static makes the kubelet read a pod from a file, for the duration of the test, and
// returns the pod's name in the cluster.
func (f *fixture) static(name, networks string) string {
	f.Helper()
	pod := f.unclaimedPod(name, networks)
	pod.APIVersion, pod.Kind = "v1", "Pod"
	manifest, err := json.Marshal(pod)
	f.Must(err)
	path := staticPods + "/" + name + ".json"
	f.Must(lab.WriteHostFile(f.node, path, manifest, 0o644))
	f.Cleanup(func() { f.sh("rm -f " + path) })
	return name + "-" + f.node.Name()
}

// podEvent returns a check that succeeds when one Event of the pod contains all parts.
func (f *fixture) podEvent(pod string, parts ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		events := f.Events(ctx, f.NS, pod)
		if slices.ContainsFunc(events, func(e string) bool { return contains("", e, parts) == nil }) {
			return nil
		}
		return fmt.Errorf("no Event of pod %s contains all of %q:\n%s", pod, parts, strings.Join(events, "\n"))
	}
}

func (f *fixture) nodeEvent(parts ...string) {
	f.Helper()
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		events := f.Events(ctx, metav1.NamespaceDefault, f.node.Name())
		if slices.ContainsFunc(events, func(e string) bool { return contains("", e, parts) == nil }) {
			return nil
		}
		return fmt.Errorf("no Event of the node contains all of %q:\n%s", parts, strings.Join(events, "\n"))
	})
}

// hasNotRun fails the test if a container of the pod was ever started.
func (f *fixture) hasNotRun(name string) {
	f.Helper()
	pod, err := f.Kube.CoreV1().Pods(f.NS).Get(f.Ctx, name, metav1.GetOptions{})
	f.Must(err)
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running != nil || c.State.Terminated != nil || c.RestartCount > 0 {
			f.Errorf("container %s of pod %s has run: %+v", c.Name, name, c.State)
		}
	}
}

// netns describes the pod's network namespace: its inode, addresses and routes.
func (f *fixture) netns(pod *corev1.Pod) string {
	f.Helper()
	inside := f.inside(pod)
	return f.sh(inside+"stat -L -c %i /proc/self/ns/net") + f.sh(inside+"ip -o addr") + f.sh(inside+"ip route")
}

// addresses returns host-local's leases of br-own's range.
func (f *fixture) addresses() string {
	f.Helper()
	return f.sh("ls -d /var/lib/cni/networks/*/10.84.0.* 2>/dev/null || true")
}

func same[T comparable](t *testing.T, what string, want, got T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

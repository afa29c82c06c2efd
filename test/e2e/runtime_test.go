//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestHostNetwork creates pods with the host's network and a claim that moves or removes
// the default route. CRI-O reports a path for their namespace, which is the node's. No
// plugin may run, no container may start, and the node must keep its interfaces, addresses
// and routes.
func TestHostNetwork(t *testing.T) {
	f := setup(t, "hostnet")
	f.bridge("br-hostnet")
	installPlugin(t, "nadra-called", `echo "$CNI_COMMAND" >>/run/nadra-called; `+passOn)
	gateway := strings.TrimSpace(f.sh("{ ip -4 route show default; ip -6 route show default; } | head -n 1 | cut -d' ' -f 3"))
	family := "-4"
	if strings.Contains(gateway, ":") {
		family = "-6"
	}
	f.undo = append(f.undo, "rm -f /run/nadra-called", "ip "+family+" route del default metric 4242")
	f.sh("ip " + family + " route add default via " + gateway + " metric 4242")
	f.nad("blue", chained("br-hostnet", "10.86.0.0/24", "nadra-called"))
	f.Must(f.Published(f.Ctx, "hostnet/blue"))
	state := func() string {
		return f.sh("ip -o link show | grep -v -e veth -e cni0; ip -o addr show | grep -v -e veth -e cni0; ip route show; ip -6 route show default; cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding")
	}
	before := state()
	for name, gateways := range map[string][]any{"moves": {"10.86.0.1"}, "removes": {}} {
		f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, name, lab.Want{Network: "blue", Config: map[string]any{"defaultRoute": gateways}})))
		pod := lab.Pod(f.NS, name, name)
		pod.Spec.HostNetwork = true
		_, err := f.CreatePod(f.Ctx, pod)
		f.Must(err)
		f.Eventually(time.Minute, func(context.Context) error { return f.hasEvent(name, lab.Code(reason.HostNetwork), "spec.hostNetwork") })
		f.Must(f.hasRun(name))
		f.Must(f.DeletePod(f.Ctx, f.NS, name))
	}
	if diff := cmp.Diff(before, state()); diff != "" {
		t.Errorf("the node's network (-before +after):\n%s", diff)
	}
	if called := f.sh("cat /run/nadra-called 2>/dev/null || true"); called != "" {
		t.Errorf("a plugin was called: %s", called)
	}
}

// TestRuntimeRestartKeepsPods restarts the container runtime and the kubelet under pods
// whose default route has moved or is removed. CRI-O then runs CHECK of the default network,
// and the kubelet replaces pods of which the runtime knows no address. All must live on, and
// nothing may be attached or detached meanwhile.
func TestRuntimeRestartKeepsPods(t *testing.T) {
	f := setup(t, "kept")
	f.bridge("br-kept")
	const calls = "/run/nadra-kept"
	installPlugin(t, "nadra-kept", `echo "$CNI_COMMAND" >>`+calls+`; `+passOn)
	f.undo = append(f.undo, "rm -f "+calls)
	f.nad("blue", chained("br-kept", "10.87.0.0/24", "nadra-kept"))
	routes := map[string]string{"moved": "default via 10.87.0.1 dev net1", "removed": ""}
	for template, gateways := range map[string][]any{"moved": {"10.87.0.1"}, "removed": {}} {
		f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, template, lab.Want{Network: "blue", Config: map[string]any{"defaultRoute": gateways}})))
	}
	const pods = 20
	templates := map[string]string{}
	for i := range pods {
		name, template := fmt.Sprintf("p%02d", i), []string{"moved", "removed"}[i%2]
		templates[name] = template
		_, err := f.CreatePod(f.Ctx, telling(lab.Pod(f.NS, name, template)))
		f.Must(err)
	}
	before := map[string]life{}
	for name := range templates {
		_, err := f.Ready(f.Ctx, f.NS, name, 4*time.Minute)
		f.Must(err)
		before[name] = f.life(name)
	}
	count := "grep -e ADD -e DEL " + calls + " | sort | uniq -c"
	called := f.sh(count)
	if !strings.Contains(called, "ADD") {
		t.Errorf("no calls of the plugin are counted: %q", called)
	}
	f.restartRuntime(slices.Collect(maps.Keys(templates)))
	same(t, "calls of the plugin", called, f.sh(count))
	for name, template := range templates {
		if diff := cmp.Diff(before[name], f.life(name)); diff != "" {
			t.Errorf("pod %s was restarted (-before +after):\n%s", name, diff)
			continue
		}
		got, err := f.Exec(f.Ctx, f.NS, name, "ip", "-4", "route", "show", "default")
		f.Must(err)
		if got := strings.TrimSpace(got); got != routes[template] {
			t.Errorf("pod %s has the default route %q, want %q", name, got, routes[template])
		}
	}
	t.Logf("%d pods lived through a restart of %s and the kubelet", pods, f.node.Runtime().Name())
	f.Kubectl("-n", f.NS, "delete", "pods", "--all", "--timeout=120s")
}

// restartRuntime restarts the runtime and the kubelet, and waits until the kubelet has looked at pods that
// tell: a pod that it does not find as it was is restarted by then.
func (f *fixture) restartRuntime(pods []string) {
	f.Helper()
	for _, component := range []string{f.node.Runtime().Name(), cluster.Kubelet} {
		f.Must(f.node.Restart(f.Ctx, component))
	}
	// The kubelet writes the annotation when it begins to look at a pod. When it writes the
	// second, it has looked at the whole pod once.
	for _, round := range []string{"first", "second"} {
		for _, name := range pods {
			f.tell(name, round)
		}
		for _, name := range pods {
			f.Eventually(2*time.Minute, func(ctx context.Context) error { return f.told(ctx, name, round) })
		}
	}
}

// round is an annotation that pods have as a file.
const round = "nadra-e2e-round"

// telling gives a pod a file with its annotation.
func telling(p *corev1.Pod) *corev1.Pod {
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[round] = "none"
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "told", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
		Items: []corev1.DownwardAPIVolumeFile{{Path: "round", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + round + "']"}}},
	}}})
	c := &p.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "told", MountPath: "/told"})
	return p
}

// tell changes a pod's annotation.
func (f *fixture) tell(pod, value string) {
	f.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, round, value)
	_, err := f.Kube.CoreV1().Pods(f.NS).Patch(f.Ctx, pod, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	f.Must(err)
}

// told returns nil once the kubelet has written a pod's annotation.
func (f *fixture) told(ctx context.Context, pod, value string) error {
	got, err := f.Exec(ctx, f.NS, pod, "cat", "/told/round")
	if err == nil && got != value {
		err = errors.New("the kubelet has not written the annotation of pod " + pod)
	}
	return err
}

// life identifies a pod's sandbox and container.
type life struct{ UID, Sandbox, Container, Address string }

// life returns a pod's life.
func (f *fixture) life(pod string) life {
	f.Helper()
	p, err := f.Kube.CoreV1().Pods(f.NS).Get(f.Ctx, pod, metav1.GetOptions{})
	f.Must(err)
	sandbox, err := f.node.PodSandbox(f.Ctx, string(p.UID))
	f.Must(err)
	return life{string(p.UID), sandbox.ID, p.Status.ContainerStatuses[0].ContainerID, p.Status.PodIP}
}

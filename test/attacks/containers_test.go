//go:build e2e

package attacks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/test/lab"
)

// plugins are the plugins that the lane installs on each node. Both are the bridge plugin with an ADD that
// makes the interface late: that of slow takes 20 seconds. The first ADD of late in a sandbox fails for good
// after 4 seconds, when the sandbox is there, and the second takes 20 seconds. Files tell that the first has
// failed, and that the second has begun.
var plugins = map[string]string{
	"slow": `[ "$CNI_COMMAND" != ADD ] || sleep 20; exec "${0%/*}/bridge"`,
	"late": `if [ "$CNI_COMMAND" = ADD ]; then
	seen=/run/late-$CNI_CONTAINERID; pod=${CNI_ARGS#*K8S_POD_NAME=}; pod=${pod%%;*}
	if [ ! -e $seen ]; then
		: >$seen; sleep 4; : >/run/failed-$pod; echo '{"cniVersion":"1.0.0","code":100,"msg":"not yet"}'; exit 1
	fi
	: >/run/second-$pod; sleep 20
fi
exec "${0%/*}/bridge"`,
}

// lateBridge returns the configuration of a network of one of these plugins.
func lateBridge(bridge, plugin string) string {
	return fmt.Sprintf(`{"cniVersion":"1.0.0","type":%q,"bridge":%q,"ipam":{}}`, plugin, bridge)
}

// TestAttackEarlyContainer starts containers of each kind while the pod's networks are being attached, for
// the first and for the second time, with a claim and without: none may run before the network is there.
func TestAttackEarlyContainer(t *testing.T) {
	a := setup(t, "early")
	for _, plugin := range []string{"slow", "late"} {
		a.Must(a.CreateNAD(a.Ctx, a.NS, plugin, lateBridge("br-"+plugin, plugin)))
	}
	a.Must(a.Published(a.Ctx, "early/slow", "early/late"))
	for how, claimed := range map[string]bool{"with a claim": true, "without a claim": false} {
		prefix := strings.ReplaceAll(how, " ", "-")
		a.tryBeside("init container and sidecar, "+how, func(a *attempt) {
			p := a.waitingPod(prefix+"-init", "slow", claimed)
			init := *p.Spec.Containers[0].DeepCopy()
			init.Name, init.Command = "init", []string{"/bin/sh", "-c", fmt.Sprintf("ip link show net1 || exit %d", bareExit)}
			sidecar := *p.Spec.Containers[0].DeepCopy()
			sidecar.Name, sidecar.RestartPolicy = "sidecar", ptr.To(corev1.ContainerRestartPolicyAlways)
			p.Spec.InitContainers = []corev1.Container{sidecar, init}
			a.creates(p)
			a.runs(p.Name)
		})
		// The regular container of these pods has no image, so that the kubelet has time for the others.
		a.tryBeside("ephemeral container on the first attach, "+how, func(a *attempt) {
			p := a.waitingPod(prefix+"-first", "slow", claimed)
			p.Spec.Containers[0].Image = "localhost/missing:1"
			a.creates(p)
			a.scheduled(p.Name)
			a.debug(p.Name, "debugger")
			a.runs(p.Name)
		})
		a.tryBeside("ephemeral container on the second attach, "+how, func(a *attempt) {
			p := a.waitingPod(prefix+"-second", "late", claimed)
			p.Spec.Containers[0].Image = "localhost/missing:1"
			a.creates(p)
			a.written("/run/failed-" + p.Name)
			a.debug(p.Name, "trigger")
			a.written("/run/second-" + p.Name)
			a.debug(p.Name, "debugger")
			a.runs(p.Name)
		})
	}
}

// creates creates a pod as the tenant.
func (a *attempt) creates(p *corev1.Pod) {
	a.Helper()
	_, err := a.tenant.CoreV1().Pods(a.NS).Create(a.Ctx, p, metav1.CreateOptions{})
	a.Must(err)
}

// written waits until a plugin has written a file on a node.
func (a *attempt) written(file string) {
	a.Helper()
	a.Eventually(2*time.Minute, func(context.Context) error {
		for _, n := range a.Cluster.Nodes() {
			path, err := n.HostPath(file)
			if err != nil {
				return err
			}
			if _, err := os.Stat(path); err == nil {
				return nil
			}
		}
		return errors.New("no plugin has written " + file)
	})
}

// waitingPod returns a pod on a network, with a claim by the webhook, or on a node that it names.
func (a *attempt) waitingPod(name, network string, claimed bool) *corev1.Pod {
	p := a.pod(name, network)
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	if !claimed {
		p.Spec.NodeName = a.node.Name()
	}
	return p
}

// scheduled waits until the kubelet knows the pod.
func (a *attempt) scheduled(pod string) {
	a.Helper()
	a.Eventually(time.Minute, func(ctx context.Context) error {
		p, err := a.Kube.CoreV1().Pods(a.NS).Get(ctx, pod, metav1.GetOptions{})
		if err == nil && p.Status.StartTime == nil {
			err = fmt.Errorf("pod %s is not on a node", pod)
		}
		return err
	})
}

// debug adds an ephemeral container to the pod, which ends with bareExit if it starts without net1.
func (a *attempt) debug(pod, name string) {
	a.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"ephemeralContainers": []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: name, Image: "localhost/test:1", ImagePullPolicy: corev1.PullNever,
			Command: []string{"/bin/sh", "-c", fmt.Sprintf("ip link show net1 || exit %d", bareExit)},
		},
	}}}})
	a.Must(err)
	_, err = a.tenant.CoreV1().Pods(a.NS).Patch(a.Ctx, pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "ephemeralcontainers")
	a.Must(err)
}

// runs waits until the pod is Ready, or its ephemeral containers have ended if it has any, and checks that
// no container has started without its network. An ephemeral container may also be refused for good, which
// nothing repeats.
func (a *attempt) runs(pod string) {
	a.Helper()
	var p *corev1.Pod
	err := lab.Eventually(a.Ctx, 90*time.Second, func(ctx context.Context) (err error) {
		if p, err = a.Kube.CoreV1().Pods(a.NS).Get(ctx, pod, metav1.GetOptions{}); err != nil || anyBare(p) != "" {
			return err
		}
		for _, c := range p.Spec.EphemeralContainers {
			if !ended(p.Status.EphemeralContainerStatuses, c.Name) {
				return fmt.Errorf("container %s of pod %s has not ended", c.Name, pod)
			}
		}
		if len(p.Spec.EphemeralContainers) == 0 && !lab.IsReady(p) {
			return fmt.Errorf("pod %s is not Ready", pod)
		}
		return nil
	})
	if bare := anyBare(p); bare != "" {
		a.harmed("container %s has started without the network", bare)
	} else if err != nil {
		if _, statusErr := lab.ReadStatus(p); statusErr != nil || len(p.Spec.EphemeralContainers) == 0 {
			a.Fatal(err)
		}
		a.Logf("%v: %+v", err, p.Status.EphemeralContainerStatuses)
	}
	a.Kubectl("delete", "pod", pod, "--grace-period=1", "--timeout=120s")
}

// ended reports whether a container has ended.
func ended(statuses []corev1.ContainerStatus, name string) bool {
	for _, s := range statuses {
		if s.Name == name && s.State.Terminated != nil {
			return true
		}
	}
	return false
}

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/lab"
)

// onlyWith returns a command that fails with 42 if it is run without an interface.
func onlyWith(iface, then string) []string {
	return []string{"/bin/sh", "-c", "ip link show " + iface + " || exit 42; " + then}
}

// sleeping is what a container does that goes on.
const sleeping = "trap 'exit 0' TERM; sleep infinity & wait"

// TestEachContainer checks that no container of any kind starts without the pod's networks: while the
// first attach runs, after it has failed, and while a second one runs in the same sandbox. Afterwards
// each has its networks.
func TestEachContainer(t *testing.T) {
	f := ownedBlue(t, "each")
	f.undo = append(f.undo, "rm -f /run/nadra-each")
	// The plugin waits, fails or succeeds as the file says.
	installPlugin(t, "nadra-each", `[ "$CNI_COMMAND" = ADD ] || exit 0
while [ "$(cat /run/nadra-each)" = wait ]; do sleep 1; done
[ "$(cat /run/nadra-each)" = go ] || { echo '{"cniVersion":"1.0.0","code":100,"msg":"no such VLAN"}'; exit 1; }
`+passOn)
	mode := func(word string) {
		f.sh("echo " + word + " >/run/nadra-each.new; mv /run/nadra-each.new /run/nadra-each")
	}
	f.nad("slow", chained("br-own", "10.84.1.0/24", "nadra-each"))
	f.Must(f.Published(f.Ctx, f.NS+"/slow"))
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "slow", lab.Want{Network: "slow"})))
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "blue", lab.Want{Network: "blue"})))

	mode("go")
	f.editedForEach("edited")
	mode("wait")
	pods := []string{"edited"}
	for _, kind := range []string{"regular", "init", "sidecar"} {
		for _, owner := range []string{"claim", "never", "node"} {
			pods = append(pods, kind+"-"+owner)
			f.createForEach(kind, owner)
		}
	}
	edited, err := f.Kube.CoreV1().Pods(f.NS).Get(f.Ctx, "edited", metav1.GetOptions{})
	f.Must(err)
	f.Must(f.node.Runtime().EndSandbox(f.Ctx, f.sandbox("edited")))
	f.Eventually(time.Minute, func(context.Context) error { return f.pluginsRun("nadra-each", len(pods)) })
	for _, name := range pods {
		f.debug(name, "net1")
	}
	f.noneRuns("the first attach runs", pods, edited)
	mode("fail")
	for _, name := range pods {
		f.Eventually(time.Minute, f.podEvent(name, reason.EventFailedAttachNetwork, "no such VLAN"))
	}
	f.noneRuns("the attach fails", pods, edited)
	mode("wait")
	f.Eventually(time.Minute, func(context.Context) error { return f.pluginsRun("nadra-each", len(pods)) })
	f.noneRuns("a second attach runs", pods, edited)
	mode("go")
	for _, name := range pods {
		pod, err := f.Ready(f.Ctx, f.NS, name, 2*time.Minute)
		f.Must(err)
		f.debug(name, "net1") // the first one may have been refused for good
		f.Eventually(time.Minute, func(ctx context.Context) error {
			if pod, err = f.Kube.CoreV1().Pods(f.NS).Get(ctx, name, metav1.GetOptions{}); err != nil {
				return err
			}
			last := pod.Status.EphemeralContainerStatuses
			if len(last) == 0 || last[len(last)-1].State.Running == nil {
				return fmt.Errorf("pod %s: no ephemeral container runs: %+v", name, last)
			}
			return nil
		})
		for _, s := range everyStatus(pod) {
			for _, state := range []corev1.ContainerState{s.State, s.LastTerminationState} {
				if state.Terminated != nil && state.Terminated.ExitCode == 42 {
					t.Errorf("pod %s: container %s has run without its network", name, s.Name)
				}
			}
		}
		f.Must(f.DeletePod(f.Ctx, f.NS, name))
	}
	f.Must(f.Kube.ResourceV1().ResourceClaimTemplates(f.NS).DeleteCollection(f.Ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	same(t, "addresses", "", f.addresses())
}

// createForEach creates a pod that has network slow by a claim, with restartPolicy Never or not, or by its
// annotation on this node, with a first container of that kind.
func (f *fixture) createForEach(kind, owner string) {
	f.Helper()
	name := kind + "-" + owner
	pod := lab.Pod(f.NS, name, "slow")
	if owner == "node" {
		pod = f.unclaimedPod(name, "slow")
		pod.Spec.NodeName = f.node.Name()
	}
	if owner == "never" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	pod.Spec.Containers[0].Command = onlyWith("net1", sleeping)
	first := *pod.Spec.Containers[0].DeepCopy()
	first.Name = "first"
	switch kind {
	case "init":
		first.Command = onlyWith("net1", "true")
		pod.Spec.InitContainers = []corev1.Container{first}
	case "sidecar":
		first.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		pod.Spec.InitContainers = []corev1.Container{first}
	}
	_, err := f.CreatePod(f.Ctx, pod)
	f.Must(err)
}

// editedForEach starts a pod with a claim for network blue, and adds network slow by an edit. In its next
// sandbox its container fails unless it has both.
func (f *fixture) editedForEach(name string) {
	f.Helper()
	pod := lab.Pod(f.NS, name, "blue")
	pod.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "blue"}
	pod.Spec.Volumes = []corev1.Volume{{Name: "kept", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "kept", MountPath: "/kept"}}
	pod.Spec.Containers[0].Command = onlyWith("net1", "[ ! -e /kept/once ] || ip link show more || exit 42; touch /kept/once; "+sleeping)
	created, err := f.CreatePod(f.Ctx, pod)
	f.Must(err)
	created, err = f.Ready(f.Ctx, f.NS, created.Name, time.Minute)
	f.Must(err)
	f.edit(name, "blue,slow@more")
	f.Eventually(30*time.Second, f.networksAre(name, f.sandboxNetNS(created), "blue@net1", "slow@more"))
	// Otherwise the kubelet may make the next sandbox with the annotation as it was.
	f.Eventually(30*time.Second, func(ctx context.Context) error {
		known, err := f.Cluster.Kubectl(ctx, "get", "--raw", "/api/v1/nodes/"+f.node.Name()+"/proxy/pods")
		if err == nil && !strings.Contains(known, "blue,slow@more") {
			err = errors.New("the kubelet has not seen the edit")
		}
		return err
	})
}

// debug adds an ephemeral container to a pod, as kubectl debug does.
func (f *fixture) debug(name, iface string) {
	f.Helper()
	f.Eventually(time.Minute, func(ctx context.Context) error {
		pod, err := f.Kube.CoreV1().Pods(f.NS).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: fmt.Sprintf("debug-%d", len(pod.Spec.EphemeralContainers)), Image: "localhost/test:1", ImagePullPolicy: corev1.PullNever, Command: onlyWith(iface, sleeping),
		}})
		_, err = f.Kube.CoreV1().Pods(f.NS).UpdateEphemeralContainers(ctx, name, pod, metav1.UpdateOptions{})
		return err
	})
}

// pluginsRun returns an error unless that many plugins run.
func (f *fixture) pluginsRun(name string, n int) error {
	if got := len(strings.Fields(f.processes(name))); got < n {
		return fmt.Errorf("%d plugins run, want %d", got, n)
	}
	return nil
}

// noneRuns watches pods for longer than the kubelet takes to ask for a container again, and fails the test
// if one of their containers runs. Those of before ran in an earlier sandbox.
func (f *fixture) noneRuns(while string, names []string, before *corev1.Pod) {
	f.Helper()
	var seen []string
	for started := time.Now(); time.Since(started) < 20*time.Second; time.Sleep(time.Second) { // the time is what is observed
		seen = nil
		for _, name := range names {
			pod, err := f.Kube.CoreV1().Pods(f.NS).Get(f.Ctx, name, metav1.GetOptions{})
			f.Must(err)
			for _, s := range everyStatus(pod) {
				if ran := lab.HasRun(s); ran && (name != before.Name || s.State.Running != nil && s.ContainerID != before.Status.ContainerStatuses[0].ContainerID) {
					f.Fatalf("while %s: container %s of pod %s runs: %+v", while, s.Name, name, s.State)
				}
				seen = append(seen, name+"/"+s.Name)
			}
			if pod.Status.Phase == corev1.PodFailed {
				f.Fatalf("while %s: pod %s has failed: %s", while, name, pod.Status.Message)
			}
		}
	}
	f.Logf("each container: while %s, none of %d runs: %s", while, len(seen), strings.Join(seen, " "))
}

// everyStatus returns the status of all containers of a pod.
func everyStatus(pod *corev1.Pod) []corev1.ContainerStatus {
	out := append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...)
	return append(append(out, pod.Status.ContainerStatuses...), pod.Status.EphemeralContainerStatuses...)
}

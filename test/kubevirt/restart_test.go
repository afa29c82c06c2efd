//go:build e2e

package kubevirt

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

// The reasons of events about CHECKs.
const (
	failedCheck = "FailedCheckNetwork"
	checked     = "CheckedNetwork" // that it has passed, or proves nothing
)

// TestDriverRestart restarts the drivers while a machine runs whose interface virt-handler's own code has bound to
// the guest. The driver must not report that as damage, as it does for another pod whose interface is gone,
// and it must still detach the network (setup checks that).
func TestDriverRestart(t *testing.T) {
	f := setup(t, "vm-restart", "lan", macvlan)
	machine := f.start("db", nic{name: "lan", network: "lan"})
	name := f.podInterface("db", "lan")
	f.bind("db", machine)
	if l := f.links(machine)[name]; l.Info.Kind != "bridge" {
		t.Fatalf("%s is %+v after the binding, want another interface in place of the macvlan", name, l)
	}
	other := lab.Pod(f.NS, "other", "")
	other.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "lan@lan"}
	other.Spec.ResourceClaims, other.Spec.Containers[0].Resources = nil, corev1.ResourceRequirements{}
	_, err := f.CreatePod(f.Ctx, other)
	f.Must(err)
	other, err = f.Ready(f.Ctx, f.NS, "other", waitLimit)
	f.Must(err)
	f.inPod(other, "ip link del lan")
	f.hasEvents(other.Name, failedCheck, 1) // by a look of the driver that runs
	for _, args := range [][]string{{"rollout", "restart", "daemonset/nadra-node"}, {"rollout", "status", "daemonset/nadra-node", "--timeout=120s"}} {
		_, err := f.Cluster.Kubectl(f.Ctx, append([]string{"-n", "nadra"}, args...)...)
		f.Must(err)
	}
	f.hasEvents(other.Name, failedCheck, 2) // and by the CHECK of the next driver, which knows no earlier report
	f.Kubectl("annotate", "pod", machine.Name, "nadra.dev/check=now")
	f.hasEvents(machine.Name, checked, 1) // by the request, and not by the restart; no CHECK of the network passes
	f.hasEvents(machine.Name, failedCheck, 0)
	f.Must(f.DeletePod(f.Ctx, f.NS, "other"))
}

// bind binds a machine's networks to its launcher pod, as virt-handler does.
func (f *fixture) bind(name string, p *corev1.Pod) {
	f.Helper()
	n := f.NodeOf(p)
	s, err := n.PodSandbox(f.Ctx, string(p.UID))
	f.Must(err)
	command := n.Command(f.Ctx, "nsenter", "--net="+s.NetNS, kubeVirt.Binding)
	command.Stdin = strings.NewReader(f.Kubectl("get", "vmi", name, "-o", "json"))
	var messages bytes.Buffer
	command.Stdout, command.Stderr = &messages, &messages
	if err := n.Run(command); err != nil {
		f.Fatalf("binding the networks of machine %s: %v\n%s", name, err, messages.String())
	}
}

// hasEvents waits until a pod has as many events with a reason as wanted.
func (f *fixture) hasEvents(pod, eventReason string, want int32) {
	f.Helper()
	f.Eventually(time.Minute, func(ctx context.Context) error {
		list, err := f.Kube.CoreV1().Events(f.NS).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod + ",reason=" + eventReason})
		if err != nil {
			return err
		}
		have := int32(0)
		for _, e := range list.Items {
			have += max(e.Count, 1)
		}
		if have != want {
			return fmt.Errorf("pod %s has %d events %s, want %d", pod, have, eventReason, want)
		}
		return nil
	})
}

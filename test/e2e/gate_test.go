//go:build e2e

package e2e

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

const gateConf = `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-gate","ipam":{"type":"host-local","subnet":"10.71.0.0/24"}}`

// needsNetwork makes a pod fail if it starts without net1.
func needsNetwork(p *corev1.Pod) *corev1.Pod {
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].Command = []string{"/bin/sh", "-c", "ip addr show net1 || exit 42; trap 'exit 0' TERM; sleep infinity & wait"}
	}
	return p
}

// TestGateHoldsWithoutTheDriver kills the driver, and with it NRI's subscription, and then the
// pod's sandbox, so that the runtime creates a new one that nobody attaches. The gate must
// hold the container until the driver is back and has attached it.
func TestGateHoldsWithoutTheDriver(t *testing.T) {
	f := setup(t, "gate")
	f.bridge("br-gate")
	f.nad("blue", gateConf)
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "web", lab.Want{Network: "blue"})))
	_, err := f.CreatePod(f.Ctx, needsNetwork(lab.Pod(f.NS, "web", "web")))
	f.Must(err)
	_, err = f.Ready(f.Ctx, f.NS, "web", time.Minute)
	f.Must(err)
	before := f.sandbox("web")

	end := func(sandbox string) {
		f.sh("kill -9 " + f.driverPIDs())
		f.Must(f.node.Runtime().EndSandbox(f.Ctx, sandbox))
	}
	ended := before
	end(ended)
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		if f.gatesWaiting() > 0 {
			return nil
		}
		if f.driverPIDs() == "" {
			return errors.New("no container is at the gate")
		}
		// The driver is back too soon, and must not be killed before it is registered: the kubelet
		// makes no sandbox without it.
		pod, err := f.Kube.CoreV1().Pods(f.NS).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		s, err := f.node.PodSandbox(ctx, string(pod.UID))
		if err != nil || s.ID == ended || !lab.IsReady(pod) {
			return errors.Join(errors.New("the pod has no new sandbox that is ready"), err)
		}
		ended = s.ID
		end(ended)
		return errors.New("the driver was back before the sandbox was")
	})
	f.Eventually(2*time.Minute, func(context.Context) error {
		if f.gatesWaiting() > 0 {
			return errors.New("the container is still at the gate")
		}
		return nil
	})
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		_, err := f.Exec(ctx, f.NS, "web", "ip", "addr", "show", "net1")
		return err
	})
	pod, err := f.Ready(f.Ctx, f.NS, "web", time.Minute)
	f.Must(err)
	if s := pod.Status.ContainerStatuses[0]; s.LastTerminationState.Terminated != nil && s.LastTerminationState.Terminated.ExitCode == 42 {
		t.Errorf("a container has run without net1")
	}
	if after := f.sandbox("web"); after == before {
		t.Errorf("the sandbox is still the old one")
	}
}

// TestGateIsInEveryContainer checks that every container has the gate, by the claim, and
// that the pod's end removes it.
func TestGateIsInEveryContainer(t *testing.T) {
	f := setup(t, "gates")
	f.bridge("br-gate")
	f.nad("blue", gateConf)
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "web", lab.Want{Network: "blue"})))
	pod := lab.Pod(f.NS, "web", "web")
	second := *pod.Spec.Containers[0].DeepCopy()
	second.Name = "second"
	pod.Spec.Containers = append(pod.Spec.Containers, second)
	_, err := f.CreatePod(f.Ctx, needsNetwork(pod))
	f.Must(err)
	ready, err := f.Ready(f.Ctx, f.NS, "web", time.Minute)
	f.Must(err)
	for _, s := range ready.Status.ContainerStatuses {
		_, id, _ := strings.Cut(s.ContainerID, "://")
		bundles := f.node.Runtime().Bundles()
		config := f.sh("cat " + filepath.Join(bundles.Dir, id, bundles.Config))
		if got := strings.Count(config, "/nadra-gate\""); got != 1 {
			t.Errorf("container %s has the gate %d times", s.Name, got)
		}
		if s.RestartCount > 0 {
			t.Errorf("container %s was restarted", s.Name)
		}
	}
	if left := f.sh("ls " + f.at.CDI); strings.Count(left, "net.nadra.dev-gate_") != 1 {
		t.Errorf("CDI files: %s", left)
	}
	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))
	if left := f.sh("ls " + f.at.CDI); left != "" {
		t.Errorf("CDI files after the pod: %s", left)
	}
}

// TestUngatedPodIsRefused creates a pod with a container that references no claim, and so
// would have no gate. It must get no sandbox, and an Event with the remedy.
func TestUngatedPodIsRefused(t *testing.T) {
	f := setup(t, "ungated")
	f.bridge("br-gate")
	f.nad("blue", gateConf)
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "web", lab.Want{Network: "blue"})))
	pod := lab.Pod(f.NS, "web", "web")
	plain := *pod.Spec.Containers[0].DeepCopy()
	plain.Name, plain.Resources = "no-reference", corev1.ResourceRequirements{}
	pod.Spec.Containers = append([]corev1.Container{plain}, pod.Spec.Containers...)
	_, err := f.CreatePod(f.Ctx, needsNetwork(pod))
	f.Must(err)
	f.Eventually(time.Minute, func(context.Context) error {
		return f.hasEvent("web", lab.Code(reason.ContainerWithoutClaim), "no-reference")
	})
	p, err := f.Kube.CoreV1().Pods(f.NS).Get(f.Ctx, "web", metav1.GetOptions{})
	f.Must(err)
	if s, err := f.node.PodSandbox(f.Ctx, string(p.UID)); !errors.Is(err, cluster.ErrNoSandbox) {
		t.Errorf("the pod has sandbox %s (%v)", s.ID, err)
	}
	f.Must(f.hasRun("web"))
}

// sandbox returns the ID of the pod's running sandbox.
func (f *fixture) sandbox(pod string) string {
	f.Helper()
	p, err := f.Kube.CoreV1().Pods(f.NS).Get(f.Ctx, pod, metav1.GetOptions{})
	f.Must(err)
	s, err := f.node.PodSandbox(f.Ctx, string(p.UID))
	f.Must(err)
	return s.ID
}

// gatesWaiting counts gate processes on the node.
func (f *fixture) gatesWaiting() int {
	f.Helper()
	return len(strings.Fields(f.processes("nadra-gate")))
}

// driverPIDs returns the PID of the driver, or "" while there is none.
func (f *fixture) driverPIDs() string {
	pid, err := lab.DriverPID(f.node)
	if err != nil {
		return ""
	}
	return pid
}

// processes returns the PIDs, on the node, of the programs with a name.
func (f *fixture) processes(name string) string {
	f.Helper()
	return strings.TrimSpace(f.sh(`for p in /proc/[0-9]*; do read c <$p/comm && [ "$c" = ` + name + ` ] && echo ${p#/proc/}; done 2>/dev/null; true`))
}

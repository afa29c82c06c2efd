package driver

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

func TestCreateContainerRefusesAnUnattachedPod(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	h := newHooks(d, 0)
	create := func(sandbox string) error {
		_, _, err := h.CreateContainer(t.Context(), &nri.PodSandbox{Id: sandbox, Uid: "web-uid", Namespace: "default", Name: "web"}, nil)
		return err
	}
	if err := create("sandbox-1"); err != nil {
		t.Errorf("a pod without claims: %v", err)
	}
	prepare(t, d, claim("a", "blue"))
	if err := create("sandbox-1"); err == nil || !strings.Contains(err.Error(), "default/blue (net1)") {
		t.Errorf("prepared only: %v", err)
	}
	if err := attachOnce(t, d, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	if err := create("sandbox-1"); err != nil {
		t.Errorf("attached: %v", err)
	}
	if err := create("sandbox-2"); err == nil {
		t.Error("attached in another sandbox only: accepted")
	}
}

// TestCreateContainerAttachesWhatNoHookHasSeen checks that CreateContainer refuses, and attaches, so
// that the next request succeeds.
func TestCreateContainerAttachesWhatNoHookHasSeen(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		drivertest.WantReason(t, w.create(t, 1), reason.AttachNotBegun, "pod default/web")
		synctest.Wait()
		if err := w.create(t, 1); err != nil {
			t.Error(err)
		}
	})
}

// TestNeverPodsWaitForAttachBeforeTheGate checks a pod that restarts no container and whose attach
// outlasts the hook: a refusal by the gate would be final, also if only network-status were missing
// in the end. So CreateContainer waits, and refuses until the pod is attached.
func TestNeverPodsWaitForAttachBeforeTheGate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		knowsPod(t, w.Driver, corev1.RestartPolicyNever)
		w.k.Slow = func(ctx context.Context) error { time.Sleep(1400 * time.Millisecond); return ctx.Err() }
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		started := time.Now()
		drivertest.WantReason(t, w.create(t, 1), reason.AttachRunning, "pod default/web")
		drivertest.Same(t, "time in the hook after that of the sandbox", time.Second/waitShare, time.Since(started))
		w.refill()
		started = time.Now()
		drivertest.WantReason(t, w.create(t, 1), reason.AttachRunning, "pod default/web")
		drivertest.Same(t, "time in the hook", time.Second, time.Since(started))
		w.refill()
		started = time.Now()
		if err := w.create(t, 1); err != nil {
			t.Errorf("attached meanwhile: %v", err)
		}
		drivertest.Same(t, "time in the hook until it is attached", 700*time.Millisecond, time.Since(started))
	})
}

package driver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"github.com/containernetworking/cni/pkg/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

// world is a driver with pod web's claim prepared, and its hooks.
type world struct {
	*Driver
	*hooks
	k *drivertest.Kernel
}

// inWorld runs a test in a bubble of its own time. Nothing may be under way at
// its end.
func inWorld(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	inWorldOf(t, blueConf, test)
}

// inWorldOf is inWorld with a network of that configuration.
func inWorldOf(t *testing.T, conf string, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, nad("blue", conf))
		base, stop := context.WithCancelCause(t.Context())
		d.jobs.base, d.quiet.base = base, base
		prepare(t, d, claim("a", "blue", "blue"))
		d.attacher.Deferred = d.delDeferred
		go func() { _ = d.retrier.Run(base) }()
		w := &world{Driver: d, k: d.attacher.Plugins.(*drivertest.Kernel)}
		w.hooks = &hooks{d: d, budget: func() time.Duration { return time.Second }, attachWait: time.Second}
		test(t, w)
		stop(errDriverStop)
		d.jobs.group.Wait()
		d.quiet.group.Wait()
	})
}

// podNo is sandbox number i of pod web as the runtime tells of it.
func podNo(i int) *nri.PodSandbox {
	s := drivertest.SandboxNo(i)
	return &nri.PodSandbox{
		Id: s.ID, Namespace: drivertest.Web.Namespace, Name: drivertest.Web.Name, Uid: drivertest.Web.UID, Pid: 7,
		Linux: &nri.LinuxPodSandbox{Namespaces: []*nri.LinuxNamespace{{Type: "network", Path: s.NetNS}}},
	}
}

func (w *world) create(t *testing.T, i int) error {
	t.Helper()
	_, _, err := w.CreateContainer(t.Context(), podNo(i), &nri.Container{})
	return err
}

func (w *world) phases() map[string]checkpoint.Phase { return drivertest.Phases(w.store) }

var (
	bothAttached = map[string]checkpoint.Phase{"net1": checkpoint.Attached, "net2": checkpoint.Attached}
	bothPrepared = map[string]checkpoint.Phase{"net1": checkpoint.Prepared, "net2": checkpoint.Prepared}
	tryLater     = types.NewError(types.ErrTryAgainLater, "no lease yet", "")
)

// The runtime's own limit leaves room for taking down and for the answer.
func TestHookBudget(t *testing.T) {
	for _, tt := range []struct{ allowed, timeout, want time.Duration }{
		{time.Second, 2 * time.Second, time.Second},
		{time.Minute, 2 * time.Second, 1400 * time.Millisecond},
		{time.Second, 100 * time.Millisecond, minBudget},
		{10 * time.Millisecond, 2 * time.Second, minBudget},
	} {
		if got := hookBudget(tt.allowed, tt.timeout); got != tt.want {
			t.Errorf("allowed %s, timeout %s: %s, want %s", tt.allowed, tt.timeout, got, tt.want)
		}
	}
}

func TestHookAttaches(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "phases", bothAttached, w.phases())
		if err := w.create(t, 1); err != nil {
			t.Error(err)
		}
	})
}

func TestHookReturnsAFailureForGood(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.k.Fail("ADD net2", drivertest.Final("no free address"))
		started := time.Now()
		drivertest.WantError(t, w.RunPodSandbox(t.Context(), podNo(1)), "attaching pod default/web", "adding network default/blue as net2", "no free address")
		if took := time.Since(started); took > 0 {
			t.Errorf("returned after %s", took)
		}
		drivertest.Same(t, "phases", bothPrepared, w.phases())
		drivertest.Same(t, "interfaces", map[string]bool{}, w.k.Has)
		for _, r := range w.store.All() {
			if r.Refusal != "" {
				t.Errorf("the gate is told although the sandbox fails: %s", r.Refusal)
			}
		}
	})
}

// What the budget does not cover goes on; the gate holds the containers.
func TestSlowAttachGoesOnBehindTheGate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.k.Slow = func(ctx context.Context) error { time.Sleep(3 * time.Second); return ctx.Err() }
		started := time.Now()
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "time in the hook", time.Second, time.Since(started))
		if err := w.create(t, 1); err != nil {
			t.Errorf("refused while it goes on: %v", err)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		drivertest.Same(t, "phases", bothAttached, w.phases())
	})
}

// Code 11 is tried again, after all that the attempt has made was taken down: a
// DEL for one network may release the addresses of all that the sandbox has.
func TestTransientFailureIsTriedAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.k.Fail("ADD net2", tryLater)
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		drivertest.WantError(t, w.create(t, 1), "pod default/web", "no lease yet", "being tried again")
		w.k.Fail("ADD net2", nil)
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		drivertest.Same(t, "phases", bothAttached, w.phases())
		drivertest.Same(t, "plugins", slices.Concat(bothAdded, bothDeleted, bothAdded), w.k.Calls)
	})
}

// A failure that comes after the hook is the gate's to tell, then
// CreateContainer's; and that is where the next attempt begins.
func TestFailureBehindTheGate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.k.Slow = func(context.Context) error { time.Sleep(2 * time.Second); return drivertest.Final("no such VLAN") }
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for _, r := range w.store.All() {
			drivertest.WantError(t, errors.New(r.Refusal), "no such VLAN")
		}
		drivertest.WantError(t, w.create(t, 1), "pod default/web", "default/blue (net1)", "phase Prepared", "no such VLAN")
		synctest.Wait()
		drivertest.Same(t, "phases right after", bothPrepared, w.phases())
		w.k.Slow = nil
		time.Sleep(2 * freshFailure)
		drivertest.WantError(t, w.create(t, 1), "no such VLAN") // and begins anew
		synctest.Wait()
		drivertest.Same(t, "phases", bothAttached, w.phases())
		if err := w.create(t, 1); err != nil {
			t.Error(err)
		}
	})
}

// Without success the attach ends before the gate does, and says why.
func TestAttachIsBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.k.Fail("ADD net1", tryLater)
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(attach.AttachTime)
		synctest.Wait()
		drivertest.Same(t, "phases", bothPrepared, w.phases())
		drivertest.WantError(t, errors.New(w.store.All()[0].Refusal), "no lease yet", "no success within 55s")
	})
}

// The deletion of a pod ends its attach and releases its containers.
func TestDeletionReleasesTheGate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.k.Slow = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		started := time.Now()
		w.podGone(drivertest.Web)
		synctest.Wait()
		drivertest.Same(t, "time to release", 0, time.Since(started))
		drivertest.Same(t, "phases", bothPrepared, w.phases())
		drivertest.Same(t, "interfaces", map[string]bool{}, w.k.Has)
		for _, r := range w.store.All() {
			drivertest.Same(t, "refusal", "the pod is being deleted", r.Refusal)
		}
	})
}

// An attached pod that is deleted costs no write.
func TestDeletionOfAnAttachedPod(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		w.podGone(drivertest.Web)
		synctest.Wait()
		drivertest.Same(t, "refusal", "", w.store.All()[0].Refusal)
	})
}

// The runtime stops a sandbox whose attach goes on: it ends and is taken down.
func TestStopEndsTheAttach(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.k.Slow = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		if err := w.StopPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "interfaces", map[string]bool{}, w.k.Has)
		drivertest.Same(t, "refusal", "", w.store.All()[0].Refusal)
	})
}

// The pod's new sandbox takes over from the one before.
func TestNewSandboxEndsTheAttachOfTheOld(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.k.Slow = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.k.Slow = nil
		if err := w.RunPodSandbox(t.Context(), podNo(2)); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "phases", bothAttached, w.phases())
		drivertest.Same(t, "interfaces", map[string]bool{"sandbox-2/net1": true, "sandbox-2/net2": true}, w.k.Has)
	})
}

// The second guard, for a sandbox that no hook has seen: it refuses, and sees
// to it that the next request succeeds.
func TestCreateContainerBeginsWhatNobodyBegan(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		drivertest.WantError(t, w.create(t, 1), "pod default/web", "made without nadra's hook")
		synctest.Wait()
		if err := w.create(t, 1); err != nil {
			t.Error(err)
		}
	})
}

// TestBrokenDelIsDeferred checks that the pod can go after a DEL has failed for a while, and
// that the DEL is retried.
func TestBrokenDelIsDeferred(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		w.k.Fail("DEL net2", errors.New("daemon is down"))
		drivertest.WantError(t, w.StopPodSandbox(t.Context(), podNo(1)), "daemon is down")
		w.k.End(drivertest.SandboxNo(1))
		drivertest.WantError(t, w.unprepare(t.Context(), "a-uid"), "daemon is down")
		drivertest.WantError(t, w.unprepare(t.Context(), "a-uid"), "daemon is down")
		drivertest.Same(t, "pending DELs so far", 0, len(w.store.PendingDELs()))
		time.Sleep(20 * time.Second)
		if err := w.unprepare(t.Context(), "a-uid"); err != nil {
			t.Errorf("the pod cannot go: %v", err)
		}
		drivertest.Same(t, "records", nil, w.store.All())
		pending := w.store.PendingDELs()
		if len(pending) != 1 || pending[0].Record.Attachment.Interface != "net2" || !strings.Contains(pending[0].Cause, "daemon is down") {
			t.Fatalf("pending DELs %+v", pending)
		}
		time.Sleep(time.Hour)
		drivertest.Same(t, "pending DELs while the plugin fails", 1, len(w.store.PendingDELs()))
		w.k.Fail("DEL net2", nil)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		drivertest.Same(t, "pending DELs", 0, len(w.store.PendingDELs()))
		drivertest.Same(t, "interfaces", map[string]bool{}, w.k.Has)
	})
}

// The driver stops in the middle: what runs is ended and taken down, and the
// gate goes on holding the containers for the next driver.
func TestStopOfTheDriver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.k.Slow = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		base, stop := context.WithCancelCause(t.Context())
		w.jobs.base = base
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		stop(errDriverStop)
		synctest.Wait()
		drivertest.Same(t, "phases", bothPrepared, w.phases())
		drivertest.Same(t, "refusal", "", w.store.All()[0].Refusal)
	})
}

// A hook leaves to the gate what it may, and waits for pods that would not
// survive a container that is refused.
func TestWhoTheHookWaitsFor(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy corev1.RestartPolicy
		want   time.Duration
	}{
		{"a pod that is not known", "", time.Second},
		{"restartPolicy Never", corev1.RestartPolicyNever, time.Second},
		{"restartPolicy OnFailure", corev1.RestartPolicyOnFailure, 0},
		{"restartPolicy Always", corev1.RestartPolicyAlways, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDriver(t, nad("blue", blueConf))
			prepare(t, d, claim("a", "blue"))
			if tt.policy != "" {
				watchingPods(t, d, tt.policy, podMeta(false))
			}
			h := &hooks{d: d, budget: func() time.Duration { return time.Second }}
			if got := h.patience(drivertest.Web); got != tt.want {
				t.Errorf("waits for %s, want %s", got, tt.want)
			}
			d.cfg.DeviceMetadata = true // containers see what their file had when they were made
			if got := h.patience(drivertest.Web); got != time.Second {
				t.Errorf("with files about devices it waits for %s", got)
			}
		})
	}
}

package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/cdi"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// TestWaitAllowance follows an allowance: it begins full, loses what is waited, and grows by its share.
func TestWaitAllowance(t *testing.T) {
	var a waitAllowance
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		passes, want, spent time.Duration
	}{
		{0, time.Second, 300 * time.Millisecond},
		{0, 700 * time.Millisecond, 700 * time.Millisecond},
		{0, 0, 0},
		{2 * time.Second, 200 * time.Millisecond, 500 * time.Millisecond}, // two hooks at a time spend too much
		{time.Second, 0, 0},
		{3 * time.Second, 100 * time.Millisecond, 0},
		{time.Hour, time.Second, 0},
	} {
		at = at.Add(step.passes)
		drivertest.Same(t, "available", step.want, a.available(at, time.Second))
		a.spend(step.spent)
	}
}

// TestHooksDoNotWaitForAnEmptyAllowance checks that no hook waits when all hooks together have waited
// long enough: sandboxes start and stop, and containers are refused until their pod is attached, of
// which the kubelet hears.
func TestHooksDoNotWaitForAnEmptyAllowance(t *testing.T) {
	kube := fake.NewClientset()
	inWorldWith(t, setup{clients: func(c *Clients) { c.Kube = kube }}, blueConf, func(t *testing.T, w *world) {
		knowsPod(t, w.Driver, corev1.RestartPolicyNever)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-uid"}}
		if err := kube.Tracker().Add(pod); err != nil {
			t.Fatal(err)
		}
		slow := func(ctx context.Context) error { time.Sleep(3 * time.Second); return ctx.Err() }
		w.k.Slow = slow
		retriggered := func() bool {
			p, err := kube.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
			return err == nil && p.Annotations[retriggerAnnotation] != ""
		}
		w.waits.available(time.Now(), w.budget())
		w.waits.spend(time.Hour)
		started := time.Now()
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		drivertest.WantReason(t, w.create(t, 1), reason.AttachRunning, "pod default/web")
		drivertest.WantReason(t, w.create(t, 1), reason.AttachRunning, "pod default/web")
		drivertest.Same(t, "time in hooks", 0, time.Since(started))
		drivertest.Same(t, "retriggered at once", false, retriggered())
		after(7 * time.Second)
		drivertest.Same(t, "phases", bothAttached, w.phases())
		drivertest.Same(t, "retriggered when it is attached", true, retriggered())
		if err := w.create(t, 1); err != nil {
			t.Error(err)
		}
		w.k.Slow = func(context.Context) error { time.Sleep(time.Second); return nil }
		started = time.Now()
		if err := w.StopPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "time in the hook of the end", 0, time.Since(started))
		after(3 * time.Second)
		drivertest.Same(t, "phases at the end", bothPrepared, w.phases())
	})
}

// TestEphemeralContainersAreGated checks that a container that lacks the gate for a claim of its pod is
// refused while the pod is being attached, because nothing restarts it, and gets the gate afterwards.
func TestEphemeralContainersAreGated(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		knowsPod(t, w.Driver, corev1.RestartPolicyAlways)
		w.k.Slow = func(ctx context.Context) error { time.Sleep(3 * time.Second); return ctx.Err() }
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		if err := w.create(t, 1); err != nil {
			t.Errorf("a regular container: %v", err)
		}
		_, _, err := w.CreateContainer(t.Context(), podNo(1), &nri.Container{})
		drivertest.WantReason(t, err, reason.AttachRunning, "pod default/web")
		after(7 * time.Second)
		adjust, _, err := w.CreateContainer(t.Context(), podNo(1), &nri.Container{})
		if err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "claims of its gate", []string{"a-uid"}, gatedClaims(adjust))
	})
}

// TestPodIsPlannedOutsideOfTheHook checks a pod without a claim whose plan takes long: its sandbox is
// made, its container is refused meanwhile, and started with its networks afterwards.
func TestPodIsPlannedOutsideOfTheHook(t *testing.T) {
	inUnclaimedWorld(t, func(t *testing.T, w *world) {
		if err := w.unclaimed.turns.Acquire(t.Context(), plansAtOnce); err != nil {
			t.Fatal(err)
		}
		pod := asking("solo", "blue")
		started := time.Now()
		if err := w.RunPodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "time in the hook", w.budget(), time.Since(started))
		_, _, err := w.CreateContainer(t.Context(), pod, &nri.Container{})
		drivertest.WantReason(t, err, reason.AttachRunning, "pod default/solo")
		drivertest.Same(t, "pods without records", 1, w.Driver.metricsState().WithoutRecords)
		w.unclaimed.turns.Release(plansAtOnce)
		synctest.Wait()
		adjust, _, err := w.CreateContainer(t.Context(), pod, &nri.Container{})
		if err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "claims of its gate", []string{"solo-uid"}, gatedClaims(adjust))
		drivertest.Same(t, "pods without records", 0, w.Driver.metricsState().WithoutRecords)
	})
}

// TestSlowDELsKeepNoTurn checks a pod without a claim while as many others as are planned at a time wait for the DELs of their
// earlier sandboxes: it is attached meanwhile.
func TestSlowDELsKeepNoTurn(t *testing.T) {
	inUnclaimedWorld(t, func(t *testing.T, w *world) {
		sandbox := func(i int, id string) *nri.PodSandbox {
			return with(asking(fmt.Sprint("slow-", i), "blue"), func(p *nri.PodSandbox) {
				p.Id = fmt.Sprint(id, i)
				p.Linux.Namespaces[0].Path = "/run/netns/" + p.Id
			})
		}
		release := make(chan struct{})
		w.k.Deleted = func() { <-release }
		for _, id := range []string{"first-", "second-"} {
			for i := range plansAtOnce {
				if err := w.RunPodSandbox(t.Context(), sandbox(i, id)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.RunPodSandbox(t.Context(), asking("solo", "blue")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		drivertest.Same(t, "DELs", plansAtOnce, len(slices.DeleteFunc(slices.Clone(w.k.Calls), func(c string) bool { return !strings.HasPrefix(c, "DEL ") })))
		drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Attached}, w.phasesOfSolo())
		close(release)
		synctest.Wait()
		for i := range plansAtOnce {
			records := w.store.ForPod(sandbox(i, "").GetUid())
			if len(records) != 1 || !checkpoint.InSandbox(sandbox(i, "second-").GetId())(records[0]) || records[0].Phase != checkpoint.Attached {
				t.Errorf("records of slow pod %d: %+v", i, records)
			}
		}
	})
}

// TestEndWhileAPodIsPlanned checks that nothing is recorded for a sandbox that has ended.
func TestEndWhileAPodIsPlanned(t *testing.T) {
	inUnclaimedWorld(t, func(t *testing.T, w *world) {
		if err := w.unclaimed.turns.Acquire(t.Context(), plansAtOnce); err != nil {
			t.Fatal(err)
		}
		pod := asking("solo", "blue")
		if err := w.RunPodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if err := w.StopPodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		w.unclaimed.turns.Release(plansAtOnce)
		synctest.Wait()
		drivertest.Same(t, "records", 0, len(w.phasesOfSolo()))
		drivertest.Same(t, "pods without records", 0, w.Driver.metricsState().WithoutRecords)
	})
}

// TestLatePodStartsNoMoreContainers checks a pod that was started while the driver was away and cannot be
// attached: its further containers are refused, and the sweep attaches it once its network is there.
func TestLatePodStartsNoMoreContainers(t *testing.T) {
	inUnclaimedWorld(t, func(t *testing.T, w *world) {
		pod := asking("solo", "late")
		w.knows(t, "solo-uid", pod.GetAnnotations())
		if _, err := w.Synchronize(t.Context(), []*nri.PodSandbox{pod}, nil); err != nil {
			t.Fatal(err)
		}
		_, _, err := w.CreateContainer(t.Context(), pod, &nri.Container{})
		drivertest.WantReason(t, err, reason.NetworkNotFound, "pod default/solo", "default/late")
		drivertest.Same(t, "pods without records", 1, w.Driver.metricsState().WithoutRecords)
		if err := w.Driver.nads.(nadCache).Add(nad("late", blueConf)); err != nil {
			t.Fatal(err)
		}
		refresh(t, w.Driver)
		after(2 * freshFailure)
		w.sweeper.sweep(t.Context(), true)
		synctest.Wait()
		if _, _, err := w.CreateContainer(t.Context(), pod, &nri.Container{}); err != nil {
			t.Error(err)
		}
		drivertest.Same(t, "pods without records", 0, w.Driver.metricsState().WithoutRecords)
	})
}

// gatedClaims returns for what a container gets the gate.
func gatedClaims(adjust *nri.ContainerAdjustment) []string {
	hooks := adjust.GetHooks().GetCreateRuntime()
	if len(hooks) != 1 {
		return nil
	}
	return cdi.GatedClaims(hooks)
}

// TestContainersWaitForTheRecordsOfEdits checks that no container of a new sandbox is created before the
// sandbox has the records of what an edit has added: it would not wait for the added network.
func TestContainersWaitForTheRecordsOfEdits(t *testing.T) {
	inUnclaimedWorld(t, func(t *testing.T, w *world) {
		knowsPod(t, w.Driver, corev1.RestartPolicyAlways)
		sandbox := func(i int, networks string) *nri.PodSandbox {
			return with(podNo(i), func(p *nri.PodSandbox) { p.Annotations = map[string]string{attachment.NetworksAnnotation: networks} })
		}
		if err := errors.Join(w.RunPodSandbox(t.Context(), sandbox(1, "blue,blue")), w.StopPodSandbox(t.Context(), sandbox(1, "blue,blue"))); err != nil {
			t.Fatal(err)
		}
		unlock, err := w.operations.Lock(t.Context(), "web-uid")
		if err != nil {
			t.Fatal(err)
		}
		second := sandbox(2, "blue,blue,blue@more")
		if err := w.RunPodSandbox(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		_, _, err = w.CreateContainer(t.Context(), second, regular(w.Driver, "web-uid"))
		drivertest.WantReason(t, err, reason.AttachRunning, "pod default/web")
		unlock()
		synctest.Wait()
		adjust, _, err := w.CreateContainer(t.Context(), second, &nri.Container{Hooks: &nri.Hooks{CreateRuntime: []*nri.Hook{w.cdi.ContainerGate([]string{"a-uid"}, nil)}}})
		if err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "claims of its second gate", []string{"web-uid"}, gatedClaims(adjust))
	})
}

package upgraderun

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata" // the machine may have no time zones

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/internal/upgrade"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// tonight is a window. A synctest's clock starts on Saturday, 2000-01-01, 00:00 UTC.
const tonight = "22:00-23:00 UTC"

// newMovable returns a world of the nodes n1 to n3 in which every step succeeds. n1 and n2
// are wave-1, n3 is wave-2.
func newMovable(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	driver := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "nadra", Name: "driver"},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: installation.DriverContainer}}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: v1alpha1.DriverName, Devices: []resourceapi.Device{{Name: "d"}},
	}}
	objects = append(objects, driver, slice)
	for _, name := range []string{"n2", "n3"} {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}})
	}
	w := newWorld(t, objects...)
	w.log = `{"moved":["00-multus.conf"],"left":["10-default.conflist"]}`
	w.plan.Source = "cluster lab"
	w.plan.Waves = []upgrade.Wave{
		{Name: "wave-1", Namespaces: []string{"x"}, Nodes: []upgrade.NodeShare{{Name: "n1"}, {Name: "n2"}}},
		{Name: "wave-2", Nodes: []upgrade.NodeShare{{Name: "n3"}}},
	}
	return w
}

// timeline records when objects change, such as "cordon n1 22:00".
func (w *world) timeline() *[]string {
	out := &[]string{}
	record := func(what string) { *out = append(*out, what+" "+time.Now().UTC().Format("02T15:04")) }
	w.PrependReactor("update", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		n := action.(clienttesting.UpdateAction).GetObject().(*corev1.Node)
		if n.Spec.Unschedulable {
			record("cordon " + n.Name)
		} else {
			record("uncordon " + n.Name)
		}
		return false, nil, nil
	})
	w.PrependReactor("patch", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		record("namespace")
		return false, nil, nil
	})
	w.PrependReactor("update", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		record("daemonset")
		return false, nil, nil
	})
	return out
}

// compare compares two lists of events.
func compare(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A run begins nothing outside its window, finishes what it has begun, and waits for the
// next opening with the rest.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMovable(t)
		events := w.timeline()
		w.runner.Settings.Window = tonight
		w.runner.Verify = func(_ context.Context, node string) error {
			if node == "n1" {
				time.Sleep(2 * time.Hour) // the window closes meanwhile
			}
			return nil
		}
		if s, err := w.run(t); err != nil || s.Phase != upgrade.Done || s.Reason != "" {
			t.Fatalf("%v, phase %s: %s", err, s.Phase, s.Reason)
		}
		compare(t, "events", *events, []string{
			"daemonset 01T22:00", "namespace 01T22:00", "cordon n1 01T22:00", "cordon n2 01T22:00",
			"uncordon n1 02T00:00", "uncordon n2 02T00:00", "cordon n3 02T22:00", "uncordon n3 02T22:00",
		})
		if want := "wave-2: waiting until Sun 2000-01-02 22:00 UTC for the window 22:00-23:00 UTC"; !slices.Contains(w.progress, want) {
			t.Errorf("it said %q, want %q", w.progress, want)
		}
	})
}

// If the window closes while the first nodes of a wave begin, they are finished before the
// others begin.
func TestWindowClosesWithinAWave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMovable(t)
		events := w.timeline()
		slow := true
		w.PrependReactor("update", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			if slow {
				slow = false
				time.Sleep(2 * time.Hour)
			}
			return false, nil, nil
		})
		w.runner.Settings.Window = tonight
		if _, err := w.run(t); err != nil {
			t.Fatal(err)
		}
		compare(t, "events", (*events)[2:], []string{
			"cordon n1 02T00:00", "uncordon n1 02T00:00", "cordon n2 02T22:00", "uncordon n2 02T22:00", "cordon n3 02T22:00", "uncordon n3 02T22:00",
		})
	})
}

// With NoWait, a run outside its window changes nothing and pauses. Its state has the
// window. Nodes that have begun are finished at any time.
func TestWindowNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMovable(t)
		events := w.timeline()
		w.runner.Settings.Window, w.runner.NoWait = tonight, true
		s, err := w.run(t)
		if reason.Of(err) != reason.OutsideWindow || !strings.Contains(err.Error(), "until Sat 2000-01-01 22:00 UTC: run kubectl nadra upgrade resume then, which continues with wave-1") {
			t.Errorf("error %v", err)
		}
		if s.Phase != upgrade.Paused || reason.In(s.Reason) != reason.OutsideWindow || s.Settings.Window != tonight || len(*events) > 0 {
			t.Errorf("state %+v, events %q", s, *events)
		}

		time.Sleep(22 * time.Hour)
		failing := errors.New("no network")
		w.runner.Verify = func(context.Context, string) error { return failing }
		if _, err := w.run(t); reason.Of(err) != reason.CanaryFailed {
			t.Fatalf("error %v", err)
		}
		time.Sleep(12 * time.Hour)
		w.runner.Verify = nil
		s, err = w.run(t)
		if reason.Of(err) != reason.OutsideWindow || !strings.HasSuffix(err.Error(), "continues with wave-2") || s.Phase != upgrade.Paused {
			t.Errorf("error %v, phase %s", err, s.Phase)
		}
		compare(t, "events", *events, []string{
			"daemonset 01T22:00", "namespace 01T22:00", "cordon n1 01T22:00", "cordon n2 01T22:00", "uncordon n1 02T10:00", "uncordon n2 02T10:00",
		})
		if s.Waves["wave-1"].Step != upgrade.WaveDone || s.Waves["wave-2"] != nil {
			t.Errorf("waves %v", s.Waves)
		}
	})
}

// While a run waits for its window, the state says so, a pause ends it, and so does an
// interruption.
func TestEndOfWaiting(t *testing.T) {
	for name, tt := range map[string]struct {
		end   func(w *world, cancel func()) error
		want  error
		phase upgrade.Phase
	}{
		"pause":        {func(w *world, _ func()) error { return w.runner.Store.Pause(context.Background(), true) }, ErrPaused, upgrade.Paused},
		"interruption": {func(_ *world, cancel func()) error { cancel(); return nil }, context.Canceled, upgrade.Running},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newMovable(t)
				w.runner.Settings.Window = tonight
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- w.runner.Run(ctx, w.plan, upgrade.NewState(), "") }()
				time.Sleep(time.Hour)
				synctest.Wait()
				if s := w.state(t); s.Phase != upgrade.Running || s.Reason != "it waits until Sat 2000-01-01 22:00 UTC for the window 22:00-23:00 UTC" {
					t.Errorf("state %s: %s", s.Phase, s.Reason)
				}
				if err := tt.end(w, cancel); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if err := <-ended; !errors.Is(err, tt.want) || time.Since(began) > windowPoll {
					t.Errorf("error %v after %s, want %v", err, time.Since(began), tt.want)
				}
				if s := w.state(t); s.Phase != tt.phase {
					t.Errorf("phase %s, want %s", s.Phase, tt.phase)
				}
			})
		})
	}
}

// A run that waits for its window keeps the Lease: no other process can begin.
func TestWaitingKeepsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMovable(t)
		w.runner.Settings.Window = "00:02-01:00 UTC"
		ended := make(chan error, 1)
		go func() {
			ended <- w.runner.Store.Alone(t.Context(), "first", func(ctx context.Context) error {
				return w.runner.Run(ctx, w.plan, upgrade.NewState(), "")
			})
		}()
		time.Sleep(time.Minute)
		err := w.runner.Store.Alone(t.Context(), "second", func(context.Context) error { return nil })
		if reason.Of(err) != reason.UpgradeRunning || !strings.Contains(err.Error(), "first carries out an upgrade") {
			t.Errorf("the second process: %v", err)
		}
		if err := <-ended; err != nil || w.state(t).Phase != upgrade.Done {
			t.Errorf("the first process: %v, %s", err, w.state(t).Phase)
		}
		if since := time.Since(time.Date(2000, 1, 1, 0, 2, 0, 0, time.UTC)); since < 0 || since > time.Minute {
			t.Errorf("it began %s after the window opened", since)
		}
	})
}

// A rollback does not wait for the window, and runs no hook.
func TestRollBackOutsideTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMovable(t)
		if _, err := w.run(t); err != nil {
			t.Fatal(err)
		}
		w.comesBack(t)
		w.runner.Settings = upgrade.Settings{Window: tonight, BeforeWave: &upgrade.Hook{Exec: "x"}, AfterWave: &upgrade.Hook{Exec: "x"}}
		state := w.state(t)
		state.Settings = w.runner.Settings
		began := time.Now()
		if err := w.runner.RollBack(t.Context(), w.plan, state, "all"); err != nil {
			t.Fatal(err)
		}
		if s := w.state(t); s.Phase != upgrade.RolledBack || time.Since(began) > time.Minute || s.Settings.Window != tonight || len(s.Waves) > 0 {
			t.Errorf("after %s: %+v", time.Since(began), s)
		}
	})
}

// Transient errors of the API server do not end the wait for the window.
func TestWaitingOutlivesTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMovable(t)
		w.runner.Settings.Window = tonight
		w.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			if h := time.Now().UTC().Hour(); h >= 1 && h < 3 {
				return true, nil, context.DeadlineExceeded // as net/http returns it, a timeout
			}
			return false, nil, nil
		})
		if s, err := w.run(t); err != nil || s.Phase != upgrade.Done {
			t.Errorf("%v, phase %s", err, s.Phase)
		}
	})
}

// A node that leaves the cluster while a run waits is skipped.
func TestNodeLeavesWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMovable(t)
		w.runner.Settings.Window = "00:10-01:00 UTC"
		time.AfterFunc(5*time.Minute, func() {
			if err := w.CoreV1().Nodes().Delete(context.Background(), "n2", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
		s, err := w.run(t)
		if err != nil || s.Phase != upgrade.Done || s.Nodes["n2"] != nil || !s.Nodes["n1"].AtNadra() {
			t.Errorf("%v, state %+v", err, s)
		}
	})
}

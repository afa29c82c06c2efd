package upgrade

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

var errRefused = &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}

// TestPersist checks which errors a request outlasts.
func TestPersist(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no"))
	for name, tt := range map[string]struct {
		err   error
		lasts int // calls that fail
		dry   kube.DryRun
		calls int
		want  error
		said  int
	}{
		"no error":                   {nil, 0, "", 1, nil, 0},
		"the API server restarts":    {fmt.Errorf("labelling it: %w", errRefused), 3, "", 4, nil, 1},
		"the API server stays away":  {errRefused, 100, "", 11, errRefused, 1},
		"an error of the cluster":    {forbidden, 1, "", 1, forbidden, 0},
		"an error with a code":       {reason.Wrap(reason.CanaryFailed, errRefused), 1, "", 1, errRefused, 0},
		"a dry run":                  {errRefused, 1, "server", 1, errRefused, 0},
		"a pause, which is no error": {ErrPaused, 1, "", 1, ErrPaused, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, said := 0, 0
				e := &run{Runner: &Runner{DryRun: tt.dry, Poll: time.Second, Say: func(string, ...any) { said++ }}}
				err := e.persist(t.Context(), 10500*time.Millisecond, "node n1", func(context.Context) error {
					if calls++; calls <= tt.lasts {
						return tt.err
					}
					return nil
				})
				if !errors.Is(err, tt.want) || calls != tt.calls || said != tt.said {
					t.Errorf("error %v after %d calls and %d messages, want %v after %d and %d", err, calls, said, tt.want, tt.calls, tt.said)
				}
			})
		})
	}
}

// TestEveryRequestOutlastsARestart lets requests of a run fail as if the API server restarted.
func TestEveryRequestOutlastsARestart(t *testing.T) {
	for _, resource := range []string{"configmaps", "nodes", "pods"} {
		t.Run(resource, func(t *testing.T) {
			w := newWorld(t)
			w.log = `{"moved":[]}`
			w.runner.GateTimeout = 10 * time.Second
			state := NewState()
			run := &run{w.runner, w.plan, state}
			if err := run.save(t.Context()); err != nil {
				t.Fatal(err)
			}
			fail := 3
			w.PrependReactor("*", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				fail--
				return fail >= 0, nil, errRefused
			})
			if err := run.nodeMoves().step(t.Context(), "n1", ToNadra, Cordon); err != nil {
				t.Fatal(err)
			}
			if err := run.nodeMoves().step(t.Context(), "n1", ToNadra, Unconfigure); err != nil {
				t.Fatal(err)
			}
			if said := strings.Join(w.progress, "\n"); !strings.Contains(said, "API server") {
				t.Errorf("the progress does not say why it takes longer:\n%s", said)
			}
		})
	}
}

// TestLeaseLost checks that a process that has lost its Lease writes no state: it may be another process' by now.
func TestLeaseLost(t *testing.T) {
	w := newWorld(t)
	state := NewState()
	j := &run{w.runner, w.plan, state}
	ctx, cancel := context.WithCancelCause(t.Context())
	err := j.record(ctx, Running, func(ctx context.Context) (Phase, error) {
		state.Nodes["n1"] = &Move{Direction: ToNadra}
		cancel(errLost)
		return "", ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if kept := w.state(t); kept.Nodes["n1"] != nil || kept.Phase != Running {
		t.Errorf("the state is %+v, want the one before the Lease was lost", kept)
	}
	if reason.Of(errLost) != reason.LeaseLost {
		t.Errorf("%v has no code", errLost)
	}
}

// TestNotSaved checks that an interrupted run does not pretend to have saved its state.
func TestNotSaved(t *testing.T) {
	w := newWorld(t)
	j := &run{w.runner, w.plan, NewState()}
	ctx, cancel := context.WithCancel(t.Context())
	err := j.record(ctx, Running, func(ctx context.Context) (Phase, error) {
		w.PrependReactor("*", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errRefused })
		cancel()
		return "", ctx.Err()
	})
	if !errors.Is(err, ErrNotSaved) || !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

// TestLeaseUnreadable checks that a command does not blame another process for an API server that is away.
func TestLeaseUnreadable(t *testing.T) {
	w := newWorld(t)
	w.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errRefused })
	synctest.Test(t, func(t *testing.T) {
		err := w.runner.Store.Alone(t.Context(), "me", func(context.Context) error { return nil })
		if reason.Of(err) != reason.LeaseLost {
			t.Errorf("error %v, want the code %s", err, reason.LeaseLost)
		}
	})
}

// TestNoReport checks the error of a pod that has ended with its node, without a report.
func TestNoReport(t *testing.T) {
	w := newWorld(t)
	err := steps{&run{w.runner, w.plan, NewState()}}.turn(t.Context(), "n1", "off")
	if err == nil || !strings.Contains(err.Error(), "without a report") {
		t.Errorf("the error is %v", err)
	}
}

// TestVerifyNeedsTheDriver checks that a resumed move does not open a node on which the driver has stopped since the step
// serve: such a node offers no networks, and so has no canaries that could fail.
func TestVerifyNeedsTheDriver(t *testing.T) {
	w := newWorld(t)
	called := false
	w.runner.Verify = func(context.Context, string) error { called = true; return nil }
	steps := steps{&run{w.runner, w.plan, NewState()}}
	err := steps.verify(t.Context(), "n1", &Move{Direction: ToNadra})
	if reason.Of(err) != reason.DriverNotServing || called {
		t.Errorf("error %v, canaries ran: %t", err, called)
	}
}

// TestReleaseWaitsForTheDriver checks that a node keeps its label until the driver is ready, and that a driver that stays
// away does not stop the rollback.
func TestReleaseWaitsForTheDriver(t *testing.T) {
	for name, ready := range map[string]bool{"ready after a while": true, "never ready": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				driver := &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: "nadra", Name: "nadra-node-x", OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Controller: ptr.To(true)}}},
					Spec:       corev1.PodSpec{NodeName: "n1", HostNetwork: true, Containers: []corev1.Container{{Name: installation.DriverContainer}}},
				}
				w := newWorld(t, driver)
				w.log, w.runner.GateTimeout, w.runner.Poll = `{"moved":[]}`, time.Hour, time.Second
				n := w.node(t)
				n.Labels = map[string]string{"nadra.dev/owner": "nadra"}
				if _, err := w.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if ready {
					time.AfterFunc(10*time.Second, func() {
						driver.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
						if err := w.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), driver, "nadra"); err != nil {
							t.Error(err)
						}
					})
				}
				steps := steps{&run{w.runner, w.plan, NewState()}}
				if err := steps.release(t.Context(), "n1", &Move{Direction: ToMultus}); err != nil {
					t.Fatal(err)
				}
				took, said := time.Since(began), strings.Join(w.progress, " ")
				if w.node(t).Labels["nadra.dev/owner"] != "returning" || ready != (took < 20*time.Second) || ready == strings.Contains(said, "may lack its networks") {
					t.Errorf("the node is %+v after %s, progress %q", w.node(t).Labels, took, said)
				}
			})
		})
	}
}

// TestRecovery checks that the last step of a move waits for the pods that workloads are to have, and not for those
// that people have taken away meanwhile.
func TestRecovery(t *testing.T) {
	ready := func(name, kind string) *corev1.Pod {
		p := pod(name, "w")
		p.OwnerReferences[0].Kind = kind
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return p
	}
	meta := metav1.ObjectMeta{Namespace: "x", Name: "w"}
	set := func(replicas int32) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &replicas}}
	}
	daemon := func(scheduled int32) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{ObjectMeta: meta, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: scheduled}}
	}
	for name, tt := range map[string]struct {
		kind    string
		objects []runtime.Object
		// later replaces a DaemonSet after a moment.
		later *appsv1.DaemonSet
		code  reason.Code
	}{
		"a pod is missing":                     {"StatefulSet", []runtime.Object{set(2), ready("a", "StatefulSet")}, nil, reason.PodsNotReady},
		"scaled up":                            {"StatefulSet", []runtime.Object{set(3), ready("a", "StatefulSet"), ready("b", "StatefulSet")}, nil, ""},
		"scaled down":                          {"StatefulSet", []runtime.Object{set(1), ready("a", "StatefulSet")}, nil, ""},
		"scaled down, and the last is missing": {"StatefulSet", []runtime.Object{set(1), pod("a", "w")}, nil, reason.PodsNotReady},
		"deleted":                              {"StatefulSet", nil, nil, ""},
		"of another kind, and one pod is not ready": {"CloneSet", []runtime.Object{func() *corev1.Pod { p := ready("a", "CloneSet"); p.Status.Conditions = nil; return p }()}, nil, reason.PodsNotReady},
		"of another kind, with fewer pods":          {"CloneSet", []runtime.Object{ready("a", "CloneSet")}, nil, reason.PodsNotReady},
		"a DaemonSet, and a node less":              {"DaemonSet", []runtime.Object{daemon(1), ready("a", "DaemonSet")}, nil, ""},
		"a DaemonSet that sees the node late":       {"DaemonSet", []runtime.Object{daemon(1), ready("a", "DaemonSet")}, daemon(2), reason.PodsNotReady},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, tt.objects...)
				w.runner.GateTimeout, w.runner.Poll = time.Minute, time.Second
				if tt.later != nil {
					time.AfterFunc(3*time.Second, func() {
						if err := w.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("daemonsets"), tt.later, "x"); err != nil {
							t.Error(err)
						}
					})
				}
				err := steps{&run{w.runner, w.plan, NewState()}}.awaitRecovery(t.Context(), "n1", &Move{Ready: []WorkloadPods{{Workload{tt.kind, "x", "w"}, 2}}})
				if reason.Of(err) != tt.code || (err != nil) != (tt.code != "") {
					t.Errorf("error %v, want code %q", err, tt.code)
				}
			})
		})
	}
}

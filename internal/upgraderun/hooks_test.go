package upgraderun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/hookcommand"
	"github.com/nadra-dev/nadra/internal/upgrade"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// commands records the command lines that a world runs among its other events, and fails
// those of fail.
func (w *world) commands(events *[]string, fail *string) {
	w.runner.Command = func(_ context.Context, line string, env []string, _ time.Duration, _ func(string)) error {
		at := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, "NADRA_WAVE_NAME=") })
		event := line + " " + strings.TrimPrefix(env[at], "NADRA_WAVE_NAME=")
		*events = append(*events, event)
		if event == *fail {
			return errors.New("exit status 1")
		}
		return nil
	}
}

// untimed returns events without their times.
func untimed(events []string) []string {
	out := slices.Clone(events)
	for i, e := range out {
		if at := strings.LastIndex(e, " 01T"); at >= 0 {
			out[i] = e[:at]
		}
	}
	return out
}

// Hooks run around each wave. A hook that fails stops the upgrade before anything else is
// changed, resume runs it again, and hooks that have run are not repeated.
func TestHooksOfWaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMovable(t)
		events := w.timeline()
		fail := "before wave-1"
		w.commands(events, &fail)
		w.runner.Settings = upgrade.Settings{BeforeWave: &upgrade.Hook{Exec: "before"}, AfterWave: &upgrade.Hook{Exec: "after"}}
		stops := func(hook, next string, want ...string) {
			t.Helper()
			s, err := w.run(t)
			isGate(t, err, hook, reason.HookFailed, "exit status 1")
			if s.Phase != upgrade.Stopped || reason.In(s.Reason) != reason.HookFailed {
				t.Errorf("phase %s: %s", s.Phase, s.Reason)
			}
			compare(t, "events until "+hook, untimed(*events), want)
			*events, fail = nil, next
		}
		stops("wave-1: hook before-wave", "after wave-1", "before wave-1")
		stops("wave-1: hook after-wave", "before wave-2",
			"before wave-1", "daemonset", "namespace", "cordon n1", "cordon n2", "uncordon n1", "uncordon n2", "after wave-1")
		stops("wave-2: hook before-wave", "", "after wave-1", "before wave-2")
		failing := errors.New("no network")
		w.runner.Verify = func(context.Context, string) error { return failing }
		if _, err := w.run(t); reason.Of(err) != reason.CanaryFailed {
			t.Fatalf("error %v", err)
		}
		w.runner.Verify = nil
		if s, err := w.run(t); err != nil || s.Phase != upgrade.Done {
			t.Fatalf("%v, phase %s", err, s.Phase)
		}
		compare(t, "events until the end", untimed(*events), []string{"before wave-2", "cordon n3", "uncordon n3", "after wave-2"})
		*events = nil
		if _, err := w.run(t); err != nil {
			t.Fatal(err)
		}
		compare(t, "events of another run", untimed(*events), nil)
	})
}

// If a node was rolled back, the hooks of its wave run again when it moves again.
func TestHooksAfterRollBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMovable(t)
		events := w.timeline()
		fail := ""
		w.commands(events, &fail)
		w.runner.Settings = upgrade.Settings{BeforeWave: &upgrade.Hook{Exec: "before"}, AfterWave: &upgrade.Hook{Exec: "after"}}
		if _, err := w.run(t); err != nil {
			t.Fatal(err)
		}
		w.comesBack(t)
		*events = nil
		if err := w.runner.RollBack(t.Context(), w.plan, w.state(t), "node/n3"); err != nil {
			t.Fatal(err)
		}
		if err := w.runner.RollBack(t.Context(), w.plan, w.state(t), "namespace/x"); err != nil {
			t.Fatal(err)
		}
		compare(t, "events of the rollback", untimed(*events), []string{"cordon n3", "uncordon n3", "namespace"})
		*events = nil
		if err := w.CoreV1().Pods("kube-system").Delete(t.Context(), "multus-1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.run(t); err != nil {
			t.Fatal(err)
		}
		compare(t, "events of the next run", untimed(*events), []string{
			"before wave-1", "namespace", "after wave-1", "before wave-2", "cordon n3", "uncordon n3", "after wave-2",
		})
	})
}

// Runs with hooks take them from the Runner, and never from the state in the cluster.
func TestHooksOfTheClusterDoNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMovable(t)
		state := upgrade.NewState()
		state.Settings.BeforeWave = &upgrade.Hook{Exec: "evil"}
		w.runner.Command = func(context.Context, string, []string, time.Duration, func(string)) error {
			t.Error("a command of the cluster ran")
			return nil
		}
		if err := w.runner.Run(t.Context(), w.plan, state, ""); err != nil {
			t.Fatal(err)
		}
		if w.state(t).Settings.BeforeWave != nil {
			t.Error("the state still has the hook")
		}
	})
}

// A dry run runs no hook, and says so.
func TestHooksInADryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMovable(t)
		w.runner.DryRun = "client"
		w.runner.Settings = upgrade.Settings{Window: tonight, BeforeWave: &upgrade.Hook{Exec: "x"}, AfterWave: &upgrade.Hook{Job: hookJob()}}
		if err := w.runner.Run(t.Context(), w.plan, upgrade.NewState(), ""); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(w.progress, "wave-1: hook before-wave: not run in a dry run: exec:x") {
			t.Errorf("it said %q", w.progress)
		}
	})
}

// Commands of a hook are real processes: their output is progress, and their errors have
// codes.
func TestRealCommands(t *testing.T) {
	w := newMovable(t)
	w.runner.Command = hookcommand.Run
	w.runner.Settings = upgrade.Settings{
		BeforeWave: &upgrade.Hook{Exec: `printf '%s|' "$NADRA_HOOK" "$NADRA_WAVE" "$NADRA_WAVES" "$NADRA_NODES" "$NADRA_NAMESPACES" "$NADRA_CLUSTER" "$NADRA_PLAN"`},
		AfterWave:  &upgrade.Hook{Exec: `echo "no route" >&2; exit 3`},
	}
	_, err := w.run(t)
	isGate(t, err, "wave-1: hook after-wave", reason.HookFailed, "running the command: exit status 3; its last output: no route")
	if want := "wave-1: hook before-wave: before-wave|1|2|n1 n2|x|cluster lab|nadra-system/nadra-upgrade|"; !slices.Contains(w.progress, want) {
		t.Errorf("it said %q, want %q", w.progress, want)
	}
	w.runner.Settings.AfterWave = &upgrade.Hook{Exec: "echo waiting; sleep 600"}
	w.runner.Settings.HookTimeout = metav1.Duration{Duration: 300 * time.Millisecond}
	_, err = w.run(t)
	isGate(t, err, "wave-1: hook after-wave", reason.HookTimeout, "after 300ms", "its last output: waiting")
}

// hookJob returns the manifest of a Job.
func hookJob() *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "check"},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}},
	}
}

// jobs plays the Job controller: it gives each Job that is created a pod, and ends the Job
// with a condition, unless that is empty.
func (w *world) jobs(t *testing.T, condition batchv1.JobConditionType) *[]batchv1.Job {
	created := &[]batchv1.Job{}
	w.PrependReactor("create", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateActionImpl)
		job := create.GetObject().(*batchv1.Job)
		if len(create.CreateOptions.DryRun) > 0 {
			return true, job, nil
		}
		*created = append(*created, *job)
		ended := job.DeepCopy()
		if condition != "" {
			ended.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "it failed"}}
		}
		if err := w.Tracker().Create(batchv1.SchemeGroupVersion.WithResource("jobs"), ended, "ops"); err != nil {
			t.Error(err)
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: job.Name + "-1", Labels: map[string]string{batchv1.JobNameLabel: job.Name}},
			Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}},
		}
		if err := w.Tracker().Add(pod); err != nil {
			t.Error(err)
		}
		return true, ended, nil
	})
	return created
}

// left returns the names of the Jobs in the cluster, without their random ends.
func (w *world) left(t *testing.T) []string {
	t.Helper()
	list, err := w.BatchV1().Jobs("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, job := range list.Items {
		out = append(out, job.Namespace+"/"+job.Name[:len(job.Name)-5])
	}
	return out
}

// Each run of a hook creates a Job of its own, which is deleted when it has completed, or
// by its TTL. A Job that failed stays until the hook runs again.
func TestJobHooks(t *testing.T) {
	for name, tt := range map[string]struct {
		condition batchv1.JobConditionType
		ttl       *int32
		code      reason.Code
		texts     []string
		left      []string
	}{
		"completes": {condition: batchv1.JobComplete},
		"TTL":       {condition: batchv1.JobComplete, ttl: ptr.To[int32](60), left: []string{"ops/check-1-before-"}},
		"fails": {
			condition: batchv1.JobFailed, code: reason.HookFailed, left: []string{"ops/check-1-before-"},
			texts: []string{"failed: BackoffLimitExceeded: it failed; the end of the log of pod check-1-before-", ": fake logs"},
		},
		"takes too long": {code: reason.HookTimeout, texts: []string{"waiting for Job ops/check-1-before-", "after 1s: pod check-1-before-", ": ImagePullBackOff; the end of the log"}},
		"suspended":      {condition: batchv1.JobSuspended, code: reason.HookTimeout, texts: []string{"after 1s: it is suspended"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newMovable(t)
				created := w.jobs(t, tt.condition)
				manifest := hookJob()
				manifest.Spec.TTLSecondsAfterFinished = tt.ttl
				w.runner.Settings = upgrade.Settings{BeforeWave: &upgrade.Hook{Job: manifest}, HookTimeout: metav1.Duration{Duration: time.Second}}
				w.plan.Waves = w.plan.Waves[:1]
				for range 2 { // the second run begins with what the first one left
					state := upgrade.NewState()
					err := w.runner.Run(t.Context(), w.plan, state, "")
					if tt.code == "" && err != nil {
						t.Fatal(err)
					}
					if tt.code != "" {
						isGate(t, err, "wave-1: hook before-wave", tt.code, tt.texts...)
						if n := w.node(t); n.Spec.Unschedulable || len(state.Waves)+len(state.Multus) > 0 {
							t.Errorf("node %+v, state %+v: nothing was to change", n.Spec, state)
						}
					}
					compare(t, "Jobs that are left", w.left(t), tt.left)
				}
				if len(*created) == 0 || !slices.Contains((*created)[0].Spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: "NADRA_WAVE", Value: "1"}) ||
					*(*created)[0].Spec.ActiveDeadlineSeconds != 1 {
					t.Errorf("created %+v", *created)
				}
			})
		})
	}
}

// A Job is not left running when the run is interrupted.
func TestInterruptedJobHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMovable(t)
		created := w.jobs(t, "")
		w.runner.Settings.BeforeWave = &upgrade.Hook{Job: hookJob()}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		if err := w.runner.Run(ctx, w.plan, upgrade.NewState(), ""); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if len(*created) != 1 {
			t.Errorf("%d Jobs were created", len(*created))
		}
		compare(t, "Jobs that are left", w.left(t), nil)
	})
}

// A Job that somebody deletes has not succeeded.
func TestDeletedJobHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMovable(t)
		created := w.jobs(t, "")
		w.runner.Settings.BeforeWave = &upgrade.Hook{Job: hookJob()}
		time.AfterFunc(100*time.Millisecond, func() {
			if err := w.BatchV1().Jobs("ops").Delete(context.Background(), (*created)[0].Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
		_, err := w.run(t)
		isGate(t, err, "wave-1: hook before-wave", reason.HookFailed, "reading it: ", "not found")
	})
}

// If Jobs may not be created, the run is refused before anything changes.
func TestRefusedJobHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMovable(t)
		w.PrependReactor("create", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if !slices.Equal(action.(clienttesting.CreateActionImpl).CreateOptions.DryRun, []string{metav1.DryRunAll}) {
				t.Error("it was not a dry run")
			}
			return true, nil, apierrors.NewForbidden(batchv1.Resource("jobs"), "", fmt.Errorf("user may not create jobs"))
		})
		w.runner.Settings.AfterWave = &upgrade.Hook{Job: hookJob()}
		err := w.runner.Run(t.Context(), w.plan, upgrade.NewState(), "")
		isGate(t, err, "hook after-wave", reason.HookJobRefused, "creating a Job in namespace ops: ", "user may not create jobs")
		if _, _, _, err := w.runner.Store.Load(t.Context()); !errors.Is(err, ErrNone) {
			t.Errorf("the cluster has a state: %v", err)
		}
	})
}

package driver

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	cnitypes "github.com/containernetworking/cni/pkg/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// world is a driver with pod web's claim prepared, and its hooks.
type world struct {
	*Driver
	*hooks
	store *checkpoint.Store
	k     *drivertest.Kernel
}

// inWorld runs a test in a bubble of its own time. Nothing may be under way at its end.
func inWorld(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	inWorldWith(t, setup{}, blueConf, test)
}

// inWorldWith runs a test as inWorld does, with a setup and a network of that
// configuration.
func inWorldWith(t *testing.T, s setup, conf string, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newDriverWith(t, s, nad("blue", conf))
		prepare(t, d, claim("a", "blue", "blue"))
		go func() { _ = d.attacher.PendingDELs.Run(d.operations.Context()) }()
		w := &world{Driver: d, store: d.store, k: kernelOf(d), hooks: newHooks(d, time.Second)}
		test(t, w)
		d.operations.Cancel(errDriverStop)
		d.background.Cancel(errDriverStop)
		d.operations.Wait()
		d.background.Wait()
	})
}

// podNo returns sandbox number i of pod web as the runtime describes it.
func podNo(i int) *nri.PodSandbox {
	s := drivertest.SandboxNo(i)
	return &nri.PodSandbox{
		Id: s.ID, Namespace: drivertest.Web.Namespace, Name: drivertest.Web.Name, Uid: drivertest.Web.UID, Pid: 7,
		Linux: &nri.LinuxPodSandbox{Namespaces: []*nri.LinuxNamespace{{Type: "network", Path: s.NetNS}}},
	}
}

// knowsPod makes a driver know pod web and its restart policy.
func knowsPod(t *testing.T, d *Driver, restart corev1.RestartPolicy) {
	t.Helper()
	pod := &knownPod{restart: restart}
	pod.Namespace, pod.Name, pod.UID = drivertest.Web.Namespace, drivertest.Web.Name, types.UID(drivertest.Web.UID)
	if err := d.watch.informer.GetStore().Add(pod); err != nil {
		t.Fatal(err)
	}
}

func (w *world) create(t *testing.T, i int) error {
	t.Helper()
	_, _, err := w.CreateContainer(t.Context(), podNo(i), regular(w.Driver, podNo(i).GetUid()))
	return err
}

// RunPodSandbox calls the hook, and lets what it has begun go on until it waits.
func (w *world) RunPodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	err := w.hooks.RunPodSandbox(ctx, pod)
	synctest.Wait()
	return err
}

// refill makes the allowance of all hooks full.
func (w *world) refill() { w.waits.spend(-time.Hour) }

func (w *world) phases() map[string]checkpoint.Phase { return drivertest.Phases(w.store) }

var (
	bothAttached = map[string]checkpoint.Phase{"net1": checkpoint.Attached, "net2": checkpoint.Attached}
	bothPrepared = map[string]checkpoint.Phase{"net1": checkpoint.Prepared, "net2": checkpoint.Prepared}
	tryLater     = cnitypes.NewError(cnitypes.ErrTryAgainLater, "no lease yet", "")
)

// TestHookBudget checks that the runtime's own limit leaves time for the rollback and the answer.
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
		drivertest.WantReason(t, w.RunPodSandbox(t.Context(), podNo(1)), reason.PluginFailed, "pod default/web", "network default/blue as net2", "no free address")
		if took := time.Since(started); took > 0 {
			t.Errorf("returned after %s", took)
		}
		drivertest.Same(t, "phases", bothPrepared, w.phases())
		drivertest.Same(t, "interfaces", map[string]bool{}, w.k.Has)
		w.wantFailed(t, "net2", reason.PluginFailed, "pod default/web", "no free address")
		for _, r := range w.store.All() {
			if r.Refusal != "" {
				t.Errorf("the gate refuses although the sandbox fails: %s", r.Refusal)
			}
		}
	})
}

// wantFailed fails the test unless the claims' status has the failure of one network, and
// names that network for the others.
func (w *world) wantFailed(t *testing.T, ifName string, code reason.Code, parts ...string) {
	t.Helper()
	failed, others := 0, 0
	for _, r := range w.store.All() {
		devices, _, _ := w.claimStatus.Pending(r.Claim)
		for _, d := range devices {
			switch {
			case d.Pool != r.Pool || d.Device != r.Device || d.ShareID != r.ShareID:
				continue
			case d.Reason != reason.ConditionAttachFailed:
				t.Errorf("%s has condition %s: %s", r.Attachment.Interface, d.Reason, d.Message)
			case r.Attachment.Interface == ifName:
				failed++
				drivertest.WantReasonIn(t, d.Message, code, parts...)
			default:
				others++
				drivertest.WantReasonIn(t, d.Message, reason.OtherNetworkFailed, " as "+ifName+" ", code.Text(""))
			}
		}
	}
	if failed != 1 || others == 0 {
		t.Errorf("the status has %d failed and %d other networks", failed, others)
	}
}

// TestSlowAttachGoesOnBehindTheGate checks that an attach goes on after the hook's budget while the
// gate holds the containers.
func TestSlowAttachGoesOnBehindTheGate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		knowsPod(t, w.Driver, corev1.RestartPolicyAlways)
		w.k.Slow = func(ctx context.Context) error { time.Sleep(3 * time.Second); return ctx.Err() }
		started := time.Now()
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "time in the hook", 0, time.Since(started))
		if err := w.create(t, 1); err != nil {
			t.Errorf("refused while it goes on: %v", err)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		drivertest.Same(t, "phases", bothAttached, w.phases())
	})
}

// TestTransientFailureIsRetried checks that code 11 is tried again, after everything was deleted
// that the try has made: the DEL of one network may release the addresses of all.
func TestTransientFailureIsRetried(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.k.Fail("ADD net2", tryLater)
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		drivertest.WantReason(t, w.create(t, 1), reason.AttachRunning, "pod default/web", "no lease yet")
		synctest.Wait() // the job tells those who wait first, and then the claim
		w.wantFailed(t, "net2", reason.PluginFailed, "no lease yet")
		w.k.Fail("ADD net2", nil)
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		drivertest.Same(t, "phases", bothAttached, w.phases())
		drivertest.Same(t, "plugins", slices.Concat(bothAdded, bothDeleted, bothAdded), w.k.Calls)
	})
}

// TestFailureBehindTheGate checks that the gate reports a failure after the hook, then
// CreateContainer, which attaches again.
func TestFailureBehindTheGate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.k.Slow = func(context.Context) error { time.Sleep(2 * time.Second); return drivertest.Final("no such VLAN") }
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for _, r := range w.store.All() {
			drivertest.WantReasonIn(t, r.Refusal, reason.PluginFailed, "no such VLAN")
		}
		drivertest.WantReason(t, w.create(t, 1), reason.PluginFailed, "pod default/web", "default/blue (net1)", "phase Prepared", "no such VLAN")
		synctest.Wait()
		drivertest.Same(t, "phases right after", bothPrepared, w.phases())
		w.k.Slow = nil
		time.Sleep(2 * freshFailure)
		if err := w.create(t, 1); err != nil { // attaches again
			t.Error(err)
		}
		drivertest.Same(t, "phases", bothAttached, w.phases())
	})
}

// TestHeldContainersAreNotLost checks that a failure that would be final is tried again while the gate holds a
// container: until the cause is gone, or the gate's time over.
func TestHeldContainersAreNotLost(t *testing.T) {
	for name, mended := range map[string]bool{"mended": true, "not mended": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				knowsPod(t, w.Driver, corev1.RestartPolicyAlways)
				var works atomic.Bool
				w.k.Slow = func(context.Context) error {
					if time.Sleep(time.Second); works.Load() {
						return nil
					}
					return drivertest.Final("no such VLAN")
				}
				if err := errors.Join(w.RunPodSandbox(t.Context(), podNo(1)), w.create(t, 1)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(40 * time.Second)
				drivertest.Same(t, "refusal while it is tried again", "", w.store.All()[0].Refusal)
				if mended {
					works.Store(true)
					time.Sleep(10 * time.Second)
					synctest.Wait()
					drivertest.Same(t, "phases", bothAttached, w.phases())
					return
				}
				time.Sleep(operations.AttachTime - 40*time.Second + time.Second)
				drivertest.WantReasonIn(t, w.store.All()[0].Refusal, reason.AttachTimeout, "no such VLAN", "55s")
			})
		})
	}
}

// TestCorrectedNADReachesAWaitingPod checks that a pod whose networks could not be attached gets them with the
// NAD's configuration of the next attempt, and its own arguments, and that one that is attached is deleted with
// the configuration of its ADD. A NAD that is wrong now is the cause, and one that is deleted keeps its
// configuration.
func TestCorrectedNADReachesAWaitingPod(t *testing.T) {
	conf := func(mtu int) string {
		return fmt.Sprintf(`{"cniVersion":"1.0.0","name":"blue","type":"macvlan","master":"lan0","mtu":%d}`, mtu)
	}
	inWorldWith(t, setup{}, conf(9000), func(t *testing.T, w *world) {
		nads := w.nads.(nadCache)
		change := func(config string) {
			t.Helper()
			if err := nads.Update(nad("blue", config)); err != nil {
				t.Fatal(err)
			}
			refresh(t, w.Driver)
		}
		mtu := func() string {
			t.Helper()
			return regexp.MustCompile(`"mtu":[0-9]+`).FindString(string(w.store.All()[0].Attachment.Conflist))
		}
		w.k.Fail("ADD net1", drivertest.Final("MTU too large"))
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err == nil {
			t.Fatal("attached with a wrong MTU")
		}
		change(`{"cniVersion":"1.0.0","name":"blue","type":`)
		time.Sleep(2 * freshFailure)
		drivertest.WantReason(t, w.create(t, 1), reason.NetworkInvalid, "NetworkAttachmentDefinition default/blue ")
		w.k.Fail("ADD net1", nil)
		change(conf(1400))
		time.Sleep(2 * freshFailure)
		if err := w.create(t, 1); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "MTU", `"mtu":1400`, mtu())
		change(conf(1300))
		if err := w.create(t, 1); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "MTU while it is attached", `"mtu":1400`, mtu())
		if err := nads.Delete(nad("blue", "")); err != nil {
			t.Fatal(err)
		}
		refresh(t, w.Driver)
		if err := w.RunPodSandbox(t.Context(), podNo(2)); err != nil {
			t.Fatalf("the NAD is deleted: %v", err)
		}
		time.Sleep(time.Second)
		drivertest.Same(t, "MTU of a deleted NAD", `"mtu":1400`, mtu())
	})
}

// TestAttachIsLimited checks that an attach without success ends before the gate does, with the
// reason.
func TestAttachIsLimited(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.k.Fail("ADD net1", tryLater)
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(operations.AttachTime)
		synctest.Wait()
		drivertest.Same(t, "phases", bothPrepared, w.phases())
		drivertest.WantReasonIn(t, w.store.All()[0].Refusal, reason.AttachTimeout, "no lease yet", "55s")
	})
}

// TestDeletionReleasesTheGate checks that the deletion of a pod ends its attach and fails its
// containers.
func TestDeletionReleasesTheGate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.k.Slow = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		started := time.Now()
		w.jobs.podDeleted(drivertest.Web)
		synctest.Wait()
		drivertest.Same(t, "time to release", 0, time.Since(started))
		drivertest.Same(t, "phases", bothPrepared, w.phases())
		drivertest.Same(t, "interfaces", map[string]bool{}, w.k.Has)
		for _, r := range w.store.All() {
			drivertest.Same(t, "refusal", errPodDeleting.Error(), r.Refusal)
		}
	})
}

// TestDeletionOfAnAttachedPod checks that the deletion of an attached pod writes nothing.
func TestDeletionOfAnAttachedPod(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		w.jobs.podDeleted(drivertest.Web)
		synctest.Wait()
		drivertest.Same(t, "refusal", "", w.store.All()[0].Refusal)
	})
}

// TestStopEndsTheAttach checks that the stop of a sandbox ends its attach and deletes what it has
// made.
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

// TestNewSandboxEndsTheAttachOfTheOld checks that a pod's new sandbox replaces the earlier one.
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

// TestBrokenDelIsDeferred checks that the pod can go after a DEL has failed for a while, and
// that the DEL is retried.
func TestBrokenDelIsDeferred(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		w.k.Fail("DEL net2", errors.New("daemon is down"))
		drivertest.WantReason(t, w.StopPodSandbox(t.Context(), podNo(1)), reason.DELUnfinished, "daemon is down")
		w.k.End(drivertest.SandboxNo(1))
		drivertest.WantReason(t, w.preparer.unprepare(t.Context(), "a-uid"), reason.DELFailed, "daemon is down")
		drivertest.WantReason(t, w.preparer.unprepare(t.Context(), "a-uid"), reason.DELFailed, "daemon is down")
		drivertest.Same(t, "pending DELs so far", 0, len(w.store.PendingDELs()))
		time.Sleep(20 * time.Second)
		if err := w.preparer.unprepare(t.Context(), "a-uid"); err != nil {
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

// TestStopOfTheDriver checks that an attach is ended when the driver stops, while the gate holds the
// containers for the next driver, which deletes what was begun.
func TestStopOfTheDriver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.k.Slow = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		w.operations.Cancel(errDriverStop)
		synctest.Wait()
		drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Attaching, "net2": checkpoint.Prepared}, w.phases())
		drivertest.Same(t, "refusal", "", w.store.All()[0].Refusal)
	})
}

// TestGateMayHold checks which pods are left to the gate while they are attached: those that survive a
// refused container.
func TestGateMayHold(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy corev1.RestartPolicy
		want   bool
	}{
		{"an unknown pod", "", false},
		{"restartPolicy Never", corev1.RestartPolicyNever, false},
		{"restartPolicy OnFailure", corev1.RestartPolicyOnFailure, true},
		{"restartPolicy Always", corev1.RestartPolicyAlways, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for files, want := range map[bool]bool{false: tt.want, true: false} { // containers see what their file had when they were created
				d := newDriverWith(t, setup{cfg: func(c *Config) { c.DeviceMetadata = files }}, nad("blue", blueConf))
				if tt.policy != "" {
					watchingPods(t, d, tt.policy, podMeta(false))
				}
				drivertest.Same(t, fmt.Sprintf("may hold, with files about devices: %t", files), want, newHooks(d, time.Second).gateMayHold(drivertest.Web))
			}
		})
	}
}

package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// ward is a kernel whose CHECKs take as long as slow does.
type ward struct {
	*drivertest.Kernel
	slow          func(context.Context) error
	mu            sync.Mutex
	running, most int
}

func (w *ward) Check(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, result json.RawMessage) (unchecked []string, err error) {
	w.mu.Lock()
	w.running++
	w.most = max(w.most, w.running)
	w.mu.Unlock()
	err = w.slow(ctx)
	w.mu.Lock()
	w.running--
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return w.Kernel.Check(ctx, s, a, result)
}

// inAttachedWorld runs a test in a world with pod web attached in sandbox 1 and nothing
// reported of it.
func inAttachedWorld(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	inWorld(t, func(t *testing.T, w *world) {
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		w.forget(t)
		test(t, w)
	})
}

// forget drops what has happened so far.
func (w *world) forget(t *testing.T) {
	t.Helper()
	synctest.Wait()
	eventsOf(t, w.Driver)
	w.k.Calls = nil
	w.networkStatus.Forget(drivertest.Web)
	w.eachClaim(w.claimStatus.Forget)
}

// eachClaim calls do for every claim with records.
func (w *world) eachClaim(do func(attachment.ClaimRef)) {
	for claim := range claimstatus.ByClaim(w.store.All(), claimstatus.Attached) {
		do(claim)
	}
}

// synchronize connects a runtime with these sandboxes of pod web.
func (w *world) synchronize(t *testing.T, sandboxes ...int) {
	t.Helper()
	var pods []*nri.PodSandbox
	for _, i := range sandboxes {
		pods = append(pods, podNo(i))
	}
	if _, err := w.Synchronize(t.Context(), pods, nil); err != nil {
		t.Fatal(err)
	}
}

// conditions returns the pending status of claims, by device: "net1 CheckFailed".
func (w *world) conditions() []string {
	var out []string
	w.eachClaim(func(claim attachment.ClaimRef) {
		devices, repair, _ := w.claimStatus.Pending(claim)
		for _, d := range devices {
			out = append(out, fmt.Sprintf("%s %s %s repair=%t", claim.Name, d.Interface, d.Reason, repair))
		}
	})
	return out
}

var (
	bothAdded   = []string{`ADD net1 in sandbox-1 netns "/run/netns/1"`, `ADD net2 in sandbox-1 netns "/run/netns/1"`}
	bothDeleted = []string{`DEL net2 in sandbox-1 netns "/run/netns/1"`, `DEL net1 in sandbox-1 netns "/run/netns/1"`}
)

var bothChecked = []string{
	`CHECK net1 in sandbox-1 netns "/run/netns/1"`, `CHECK net2 in sandbox-1 netns "/run/netns/1"`,
}

// TestCheckAtStart checks that a driver checks all attachments once after it was started,
// and that success is no event.
func TestCheckAtStart(t *testing.T) {
	inAttachedWorld(t, func(t *testing.T, w *world) {
		w.synchronize(t, 1)
		synctest.Wait()
		drivertest.Same(t, "plugins", bothChecked, w.k.Calls)
		drivertest.Same(t, "events", nil, eventsOf(t, w.Driver))
		drivertest.Same(t, "conditions", []string{"a net1 Attached repair=true", "a net2 Attached repair=true"}, w.conditions())
		w.synchronize(t, 1) // the runtime was restarted
		synctest.Wait()
		drivertest.Same(t, "plugins after another connection", bothChecked, w.k.Calls)
	})
}

// TestCheckAtStartOfALauncher checks that a driver that was started runs no CHECK for the launcher pod of a virtual
// machine, and runs it when it is requested.
func TestCheckAtStartOfALauncher(t *testing.T) {
	inAttachedWorld(t, func(t *testing.T, w *world) {
		pod := podNo(1)
		pod.Labels = map[string]string{attachment.LauncherLabel: attachment.Launcher}
		if _, err := w.Synchronize(t.Context(), []*nri.PodSandbox{pod}, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		drivertest.Same(t, "plugins at the start", nil, w.k.Calls)
		w.checker.checkOnDemand(sandboxOf(pod, func(string) bool { return false }).Pod)
		synctest.Wait()
		drivertest.Same(t, "plugins on demand", bothChecked, w.k.Calls)
	})
}

// TestCheckAtStartFails checks that a broken attachment is reported, and that nothing else
// happens.
func TestCheckAtStartFails(t *testing.T) {
	inAttachedWorld(t, func(t *testing.T, w *world) {
		w.k.Fail("CHECK net2", drivertest.Final("the address is gone"))
		w.synchronize(t, 1)
		synctest.Wait()
		drivertest.Same(t, "plugins", bothChecked, w.k.Calls)
		events := eventsOf(t, w.Driver)
		drivertest.Same(t, "number of events", 1, len(events))
		drivertest.WantReasonIn(t, events[0], reason.AttachmentChanged, "Warning "+reason.EventFailedCheckNetwork+" ", "network default/blue (net2)", "the address is gone (CNI code 999)")
		drivertest.Same(t, "conditions", []string{"a net1 Attached repair=true", "a net2 CheckFailed repair=true"}, w.conditions())
		drivertest.Same(t, "phases", bothAttached, w.phases())
		if err := w.create(t, 1); err != nil {
			t.Errorf("a container is refused: %v", err)
		}
	})
}

// TestCheckAtStartOfAHalfAttachedPod checks a driver that died between two ADDs: the whole
// pod is attached again, and checked. A pod without attachments is not checked.
func TestCheckAtStartOfAHalfAttachedPod(t *testing.T) {
	for _, half := range []bool{true, false} {
		inWorld(t, func(t *testing.T, w *world) {
			var want []string
			if s := drivertest.SandboxNo(1); half {
				s.Cookie = drivertest.CookieOf(s.NetNS)
				all := w.store.All()
				if err := w.store.MarkAttaching(checkpoint.Keys(all), s, nil); err != nil {
					t.Fatal(err)
				}
				if err := w.store.MarkAttached(checkpoint.Added{Key: all[0].Key(), Result: json.RawMessage(`{}`)}); err != nil {
					t.Fatal(err)
				}
				want = slices.Concat(bothDeleted, bothAdded, bothChecked)
			} else {
				want = bothAdded
			}
			w.synchronize(t, 1)
			synctest.Wait()
			drivertest.Same(t, "plugins", want, w.k.Calls)
		})
	}
}

// TestCheckOnDemand checks that an owner who requests a CHECK gets an answer in any case.
func TestCheckOnDemand(t *testing.T) {
	inAttachedWorld(t, func(t *testing.T, w *world) {
		ask := func() []string {
			w.checker.checkOnDemand(drivertest.Web)
			synctest.Wait()
			return eventsOf(t, w.Driver)
		}
		good := []string{
			"Normal CheckedNetwork network default/blue (net1) is as it was attached",
			"Normal CheckedNetwork network default/blue (net2) is as it was attached",
		}
		drivertest.Same(t, "events", good, ask())
		w.k.Fail("CHECK net1", drivertest.Final("the interface is gone"))
		events := ask()
		if len(events) != 2 || events[0] != good[1] {
			t.Fatalf("events %q", events)
		}
		drivertest.WantReasonIn(t, events[1], reason.AttachmentChanged, "default/blue (net1)", "the interface is gone")
		drivertest.Same(t, "conditions", []string{"a net1 CheckFailed repair=true", "a net2 Attached repair=true"}, w.conditions())
		w.k.Fail("CHECK net1", nil)
		drivertest.Same(t, "events when it is repaired", good, ask())
		drivertest.Same(t, "conditions when it is repaired", []string{"a net1 Attached repair=true", "a net2 Attached repair=true"}, w.conditions())
		w.k.End(drivertest.SandboxNo(1))
		w.k.Calls = nil
		drivertest.Same(t, "events without a sandbox", []string{"Warning FailedCheckNetwork network default/blue (net1) was not checked: its sandbox is gone"}, ask())
		drivertest.Same(t, "plugins without a sandbox", nil, w.k.Calls)
	})
}

func TestCheckOnDemandOfWhatIsNotAttached(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.checker.checkOnDemand(drivertest.Web)
		w.checker.checkOnDemand(attachment.PodRef{Namespace: "default", Name: "none of ours", UID: "x"})
		synctest.Wait()
		drivertest.Same(t, "events", []string{"Warning FailedCheckNetwork network default/blue (net1) was not checked: it is not attached, phase Prepared"}, eventsOf(t, w.Driver))
		drivertest.Same(t, "plugins", nil, w.k.Calls)
	})
}

func TestWhatHasNoCheckSaysSo(t *testing.T) {
	d := newDriver(t)
	drivertest.WantReasonIn(t, d.checker.checkedMessage(attachment.Attachment{Interface: "old0"}, nil), "", "old0", "0.4.0", "disableCheck")
	drivertest.WantReasonIn(t, d.checker.checkedMessage(attachment.Attachment{Interface: "net1"}, []string{"macvlan"}), "", "net1", "plugin macvlan")
}

// TestRequestsCheck checks that only a new value on the same pod requests a CHECK.
func TestRequestsCheck(t *testing.T) {
	meta := func(uid types.UID, value string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: uid, Annotations: map[string]string{checkAnnotation: value, "other": string(uid)}}}
	}
	for _, tt := range []struct {
		was, is *metav1.PartialObjectMetadata
		want    bool
	}{
		{&metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadata{}, false},
		{meta("a", ""), meta("a", "1"), true},
		{meta("a", "1"), meta("a", "2"), true},
		{meta("a", "1"), meta("a", "1"), false},
		{meta("a", "1"), meta("a", ""), false},
		{meta("a", "1"), meta("b", "2"), false},
	} {
		if got := requestsCheck(tt.was, tt.is); got != tt.want {
			t.Errorf("%s -> %s: %t", tt.was.Annotations, tt.is.Annotations, got)
		}
	}
}

// TestCheckYields checks that the end of a sandbox does not wait for a CHECK, which is not
// reported.
func TestCheckYields(t *testing.T) {
	inAttachedWorld(t, func(t *testing.T, w *world) {
		hangs := &ward{Kernel: w.k, slow: func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }}
		w.operations.Plugins = hangs
		w.synchronize(t, 1)
		synctest.Wait()
		drivertest.Same(t, "running", 1, hangs.running)
		started := time.Now()
		if err := w.StopPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "time in the hook", 0, time.Since(started))
		drivertest.Same(t, "interfaces", map[string]bool{}, w.k.Has)
		after(2 * checkPause)
		drivertest.Same(t, "running", 0, hangs.running)
		drivertest.Same(t, "events", nil, eventsOf(t, w.Driver))
	})
}

// TestCheckIsRetried checks that a CHECK which had to yield is run again, and that two
// checks of a pod run one after the other.
func TestCheckIsRetried(t *testing.T) {
	inAttachedWorld(t, func(t *testing.T, w *world) {
		slow := &ward{Kernel: w.k, slow: func(ctx context.Context) error { background.Sleep(ctx, time.Second); return context.Cause(ctx) }}
		w.operations.Plugins = slow
		for range 2 {
			w.checker.checkOnDemand(drivertest.Web)
			synctest.Wait()
		}
		unlock, err := w.operations.Lock(t.Context(), drivertest.Web.UID)
		if err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "events before", nil, eventsOf(t, w.Driver))
		unlock()
		after(2*time.Second + checkPause + 2*time.Second)
		drivertest.Same(t, "events", 4, len(eventsOf(t, w.Driver)))
		drivertest.Same(t, "at a time", 1, slow.most)
	})
}

// TestManyRequestsAreOneCheck checks that requests while a CHECK runs make one more, however many a tenant sends.
func TestManyRequestsAreOneCheck(t *testing.T) {
	inAttachedWorld(t, func(t *testing.T, w *world) {
		w.operations.Plugins = &ward{Kernel: w.k, slow: func(ctx context.Context) error { background.Sleep(ctx, time.Second); return context.Cause(ctx) }}
		for range 100 {
			w.checker.checkOnDemand(drivertest.Web)
			synctest.Wait()
		}
		after(time.Hour)
		drivertest.Same(t, "plugins", slices.Concat(bothChecked, bothChecked), w.k.Calls)
		w.checker.checkOnDemand(drivertest.Web)
		after(time.Hour)
		drivertest.Same(t, "plugins after another request", 6, len(w.k.Calls))
	})
}

func TestHangingCheckFails(t *testing.T) {
	inAttachedWorld(t, func(t *testing.T, w *world) {
		w.operations.Plugins = &ward{Kernel: w.k, slow: func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }}
		w.checker.checkOnDemand(drivertest.Web)
		after(2 * operations.CheckLimit)
		events := eventsOf(t, w.Driver)
		drivertest.Same(t, "number of events", 2, len(events))
		drivertest.WantReasonIn(t, events[0], reason.AttachmentChanged, "10s")
	})
}

// TestCheckWithoutAnAnswerIsRetried checks a plugin that was killed, or asks to be asked
// later.
func TestCheckWithoutAnAnswerIsRetried(t *testing.T) {
	inAttachedWorld(t, func(t *testing.T, w *world) {
		answers := []error{tryLater, nil, tryLater, tryLater} // of net1 twice, and of net2
		w.operations.Plugins = &ward{Kernel: w.k, slow: func(context.Context) error {
			err := answers[0]
			answers = answers[1:]
			return err
		}}
		w.checker.checkOnDemand(drivertest.Web)
		after(3 * checkPause)
		events := eventsOf(t, w.Driver)
		if len(events) != 2 || events[0] != "Normal CheckedNetwork network default/blue (net1) is as it was attached" {
			t.Fatalf("events %q", events)
		}
		drivertest.WantReasonIn(t, events[1], reason.AttachmentChanged, "Warning "+reason.EventFailedCheckNetwork+" ", "default/blue (net2)", "no lease yet (CNI code 11)")
	})
}

// TestStopEndsChecks checks that a CHECK which the driver's stop has ended is not
// reported.
func TestStopEndsChecks(t *testing.T) {
	inAttachedWorld(t, func(t *testing.T, w *world) {
		w.operations.Plugins = &ward{Kernel: w.k, slow: func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }}
		w.synchronize(t, 1)
		synctest.Wait()
		w.eachClaim(w.claimStatus.Forget)
		w.background.Cancel(errDriverStop)
		w.background.Wait()
		drivertest.Same(t, "events", nil, eventsOf(t, w.Driver))
		drivertest.Same(t, "conditions", nil, w.conditions())
	})
}

// TestManyPodsAreCheckedAFewAtATime checks that many pods are checked a few at a time, and
// that nothing waits for them.
func TestManyPodsAreCheckedAFewAtATime(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const many = 5 * operations.Workers
		var pods []*nri.PodSandbox
		for i := range many {
			pod := attachment.PodRef{Namespace: "default", Name: fmt.Sprintf("p%d", i), UID: fmt.Sprintf("uid-%d", i)}
			if err := w.store.Put([]attachment.Prepared{{
				Claim: attachment.ClaimRef{Namespace: "default", Name: pod.Name, UID: pod.UID}, Pod: pod,
				Attachment: attachment.Attachment{Interface: "net1", Conflist: json.RawMessage(`{}`)},
			}}); err != nil {
				t.Fatal(err)
			}
			s := attachment.Sandbox{ID: pod.UID, NetNS: "/run/netns/" + pod.UID, Pod: pod}
			if err := attachOnce(t, w.Driver, s); err != nil {
				t.Fatal(err)
			}
			pods = append(pods, &nri.PodSandbox{
				Id: s.ID, Namespace: pod.Namespace, Name: pod.Name, Uid: pod.UID, Pid: 7,
				Linux: &nri.LinuxPodSandbox{Namespaces: []*nri.LinuxNamespace{{Type: "network", Path: s.NetNS}}},
			})
		}
		w.k.Calls = nil
		slow := &ward{Kernel: w.k, slow: func(ctx context.Context) error { background.Sleep(ctx, time.Second); return context.Cause(ctx) }}
		w.operations.Plugins = slow
		started := time.Now()
		if _, err := w.Synchronize(t.Context(), pods, nil); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "time in the hook", 0, time.Since(started))
		after(many / operations.Workers * time.Second)
		drivertest.Same(t, "checked", many, len(w.k.Calls))
		drivertest.Same(t, "at a time", operations.Workers, slow.most)
	})
}

// TestCheckAfterTheDefaultRouteMoved checks that plugins get their results without the
// routes that nadra has replaced, and that nadra checks its own (behaviour B7-3).
func TestCheckAfterTheDefaultRouteMoved(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		primary := checkpoint.Route{Family: "IPv4", Hops: []checkpoint.Hop{{Interface: "eth0", Gateway: "10.88.0.1"}}}
		w.k.Routes = []checkpoint.Route{primary}
		r := drivertest.Attached("net1", drivertest.BridgeResult)
		r.Pod, r.Claim.UID = drivertest.Web, "asking"
		r.Attachment.DefaultRoute = &[]string{"10.1.0.1"}
		sandbox := drivertest.SandboxNo(1)
		r.Sandbox = &sandbox
		if err := w.store.Put([]attachment.Prepared{r.Prepared}); err != nil {
			t.Fatal(err)
		}
		check := func(r checkpoint.Record) error {
			return locked(t, w.Driver, r.Pod, func(ctx context.Context) error { return w.checker.runCheck(ctx, r).err })
		}
		drivertest.WantReason(t, check(r), reason.AttachmentChanged, "IPv4 default via 10.1.0.1 dev net1 metric 0")
		if got := w.k.Checked[0]; strings.Contains(got, "0.0.0.0/0") || !strings.Contains(got, "10.1.0.5/24") {
			t.Errorf("the plugin was asked about %s", got)
		}
		w.k.Routes = []checkpoint.Route{{Family: "IPv4", Hops: []checkpoint.Hop{{Interface: "net1", Gateway: "10.1.0.1"}}}}
		if err := check(r); err != nil {
			t.Error(err)
		}
		if err := w.store.DeleteClaim("asking", w.store.ForClaim("asking")[0].Pod.UID); err != nil {
			t.Fatal(err)
		}
		if err := check(attachedRecordIn(sandbox, drivertest.BridgeResult)); err != nil || !strings.Contains(w.k.Checked[2], "0.0.0.0/0") {
			t.Errorf("without a request: %v, the plugin was asked about %s", err, w.k.Checked[2])
		}
	})
}

// TestCheckHasNoAddressesOfTheHost checks that plugins are not asked about the hardware addresses of the host's
// interfaces, because that of a bridge changes with other pods.
func TestCheckHasNoAddressesOfTheHost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		r := attachedRecordIn(drivertest.SandboxNo(1), drivertest.BridgeResult)
		if err := locked(t, w.Driver, r.Pod, func(ctx context.Context) error { return w.checker.runCheck(ctx, r).err }); err != nil {
			t.Fatal(err)
		}
		got := w.k.Checked[0]
		for part, want := range map[string]bool{"02:00:00:00:00:01": false, "02:00:00:00:00:02": false, "02:00:00:00:00:03": true, `"name":"br0"`: true} {
			if strings.Contains(got, part) != want {
				t.Errorf("the plugin was asked about %s, want %s in it: %t", got, part, want)
			}
		}
	})
}

func attachedRecordIn(s attachment.Sandbox, result string) checkpoint.Record {
	r := drivertest.Attached("net1", result)
	r.Pod, r.Sandbox = s.Pod, &s
	return r
}

// TestRuntimesThatMissRoutes checks that the runtime's result of eth0 loses the default routes
// that have moved, unless the runtime is containerd, which runs no CHECK.
func TestRuntimesThatMissRoutes(t *testing.T) {
	for runtime, want := range map[string][]string{"containerd": nil, "CRI-O": {"sandbox-1"}, "other": {"sandbox-1"}} {
		d := newDriver(t, nad("blue", blueConf))
		prepare(t, d, configure(claim("c", "blue"), "req0", `"network":{"name":"blue"},"defaultRoute":["10.1.0.1"]`))
		h := newHooks(d, time.Minute)
		if _, err := h.Configure(t.Context(), "", runtime, "1.36.3"); err != nil {
			t.Fatal(err)
		}
		if err := h.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		d.operations.Wait()
		drivertest.Same(t, runtime, want, kernelOf(d).Forgotten)
	}
}

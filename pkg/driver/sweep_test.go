package driver

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/podnet"
	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// watching makes the driver see exactly these pods of its node, which restart no container.
func watching(t *testing.T, d *Driver, pods ...*metav1.PartialObjectMetadata) {
	t.Helper()
	watchingPods(t, d, corev1.RestartPolicyNever, pods...)
}

// watchingPods makes the driver see exactly these pods of its node.
func watchingPods(t *testing.T, d *Driver, policy corev1.RestartPolicy, pods ...*metav1.PartialObjectMetadata) {
	t.Helper()
	tracker := d.clients.Kube.(*fake.Clientset).Tracker()
	resource := corev1.SchemeGroupVersion.WithResource("pods")
	if err := tracker.Delete(resource, drivertest.Web.Namespace, drivertest.Web.Name); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	for _, p := range pods {
		pod := &corev1.Pod{ObjectMeta: p.ObjectMeta, Spec: corev1.PodSpec{RestartPolicy: policy}}
		if err := tracker.Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); d.watch.informer.RunWithContext(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	if !cache.WaitForCacheSync(t.Context().Done(), d.watch.informer.HasSynced) {
		t.Fatal("the watch has not synced")
	}
}

func podMeta(deleted bool) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: drivertest.Web.Namespace, Name: drivertest.Web.Name, UID: types.UID(drivertest.Web.UID)}}
	if deleted {
		m.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0)))
	}
	return m
}

// attachedDriver returns a driver with pod web attached, and its plugins.
func attachedDriver(t *testing.T) (*Driver, *drivertest.Kernel) {
	t.Helper()
	return attachedDriverWith(t, setup{})
}

func attachedDriverWith(t *testing.T, s setup) (*Driver, *drivertest.Kernel) {
	t.Helper()
	d := newDriverWith(t, s, nad("blue", blueConf))
	prepare(t, d, claim("a", "blue"))
	if err := attachOnce(t, d, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	k := kernelOf(d)
	k.Calls = nil
	return d, k
}

// TestSweepDetachesFromNamespacesThatAreGone checks sandboxes whose end the runtime does not report,
// because they are older than itself.
func TestSweepDetachesFromNamespacesThatAreGone(t *testing.T) {
	d, k := attachedDriver(t)
	d.sweeper.sweep(t.Context(), true)
	drivertest.Same(t, "plugins while the namespace is there", nil, k.Calls)
	k.Namespace = func(string) (podnet.Namespace, error) { return podnet.Namespace{}, errors.New("too many open files") }
	d.sweeper.sweep(t.Context(), true)
	drivertest.Same(t, "plugins while it is not known", nil, k.Calls)
	k.Namespace = func(string) (podnet.Namespace, error) { return podnet.Namespace{}, podns.ErrGone }
	d.sweeper.sweep(t.Context(), true)
	drivertest.Same(t, "plugins", []string{`DEL net1 in sandbox-1 netns ""`}, k.Calls)
	drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Prepared}, drivertest.Phases(d.store))
}

// TestSweepRepairsNetworkStatus checks that a network-status which another client has overwritten is
// written again.
func TestSweepRepairsNetworkStatus(t *testing.T) {
	d, _ := attachedDriverWith(t, setup{heldStatus: true})
	text, err := networkstatus.Text(nil, d.store.All(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, shown string
		want        int
	}{{"as it was written", text, 0}, {"removed", "", 1}} {
		pod := &knownPod{restart: corev1.RestartPolicyAlways}
		pod.Namespace, pod.Name, pod.UID = drivertest.Web.Namespace, drivertest.Web.Name, types.UID(drivertest.Web.UID)
		pod.Annotations = map[string]string{nadv1.NetworkStatusAnnot: tt.shown}
		if err := d.watch.informer.GetStore().Add(pod); err != nil {
			t.Fatal(err)
		}
		d.networkStatus.Forget(drivertest.Web)
		d.sweeper.sweep(t.Context(), false)
		drivertest.Same(t, tt.name, tt.want, d.networkStatus.Queue(time.Now()).Length)
	}
}

// TestLeftoversAreCounted checks that what a sweep cannot clean up is counted until it is cleaned up.
func TestLeftoversAreCounted(t *testing.T) {
	d, k := attachedDriver(t)
	is := func(what string, want map[string]int) {
		t.Helper()
		all := map[string]int{orphanPendingDEL: 0, orphanSandbox: 0, orphanClaim: 0, orphanCache: 0, orphanDamaged: 0}
		maps.Copy(all, want)
		drivertest.Same(t, what, all, orphans(d.store, d.sweeper.leftovers.Load()))
	}
	is("before a sweep", nil)
	d.sweeper.sweep(t.Context(), true)
	is("while all is well", nil)
	k.Namespace = func(string) (podnet.Namespace, error) { return podnet.Namespace{}, podns.ErrGone }
	k.Fail("DEL net1", drivertest.Final("busy"))
	k.Cached = []cniexec.Cached{{CacheEntry: cniexec.CacheEntry{Network: "blue"}}, {CacheEntry: cniexec.CacheEntry{Network: "red"}}}
	d.sweeper.sweep(t.Context(), true)
	is("with a plugin that fails", map[string]int{orphanSandbox: 1, orphanCache: 2})
	if err := d.store.DeferDEL(d.store.All()[0].Key(), errors.New("busy")); err != nil {
		t.Fatal(err)
	}
	d.sweeper.sweep(t.Context(), true)
	is("deferred", map[string]int{orphanPendingDEL: 1, orphanCache: 2})
	k.Cached = nil
	d.sweeper.sweep(t.Context(), true)
	is("with an empty cache", map[string]int{orphanPendingDEL: 1})
}

// TestSweepKnowsANamespaceByItsCookie checks a path that is another sandbox's namespace by now.
func TestSweepKnowsANamespaceByItsCookie(t *testing.T) {
	d, k := attachedDriver(t)
	k.Namespace = func(string) (podnet.Namespace, error) { return podnet.Namespace{Cookie: 4711}, nil }
	d.sweeper.sweep(t.Context(), true)
	drivertest.Same(t, "plugins", []string{`DEL net1 in sandbox-1 netns ""`}, k.Calls)
}

// TestSweepUnpreparesClaimsThatAreGone checks a kubelet that has lost its state. A claim
// is unprepared only if pod and claim are gone from the API server and the namespace from
// the node, in two sweeps one after the other.
func TestSweepUnpreparesClaimsThatAreGone(t *testing.T) {
	there := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "a-uid"}}
	namesake := there.DeepCopy()
	namesake.UID = "another-uid"
	gone := func(string) (podnet.Namespace, error) { return podnet.Namespace{}, podns.ErrGone }
	tests := []struct {
		name  string
		pods  []*metav1.PartialObjectMetadata
		claim *resourceapi.ResourceClaim
		netns func(string) (podnet.Namespace, error)
		kept  bool
	}{
		{name: "everything is gone", netns: gone},
		{name: "a claim of the same name", claim: namesake, netns: gone},
		{name: "the pod is there", pods: []*metav1.PartialObjectMetadata{podMeta(false)}, netns: gone, kept: true},
		{name: "the claim is there", claim: there, netns: gone, kept: true},
		{name: "the namespace is there", kept: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kube := fake.NewClientset()
			if tt.claim != nil {
				kube = fake.NewClientset(tt.claim)
			}
			d, k := attachedDriverWith(t, setup{clients: func(c *Clients) { c.Kube = kube }})
			watching(t, d, tt.pods...)
			if tt.netns != nil {
				k.Namespace = tt.netns
			}
			d.sweeper.sweep(t.Context(), false)
			drivertest.Same(t, "records after one sweep", 1, len(d.store.All()))
			d.sweeper.sweep(t.Context(), false)
			drivertest.Same(t, "still there", tt.kept, len(d.store.All()) == 1)
			drivertest.Same(t, "gate still there", tt.kept, len(devicesIn(t, d.cdi.SpecDir)) == 1)
		})
	}
}

// TestPodUnderDeletionIsNotAttached checks that a pod which is being deleted is not attached.
func TestPodUnderDeletionIsNotAttached(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	prepare(t, d, claim("a", "blue"))
	watching(t, d, podMeta(true))
	h := newHooks(d, time.Minute)
	drivertest.WantReason(t, h.RunPodSandbox(t.Context(), podNo(1)), reason.AttachCancelled, errPodDeleting.Error())
	drivertest.Same(t, "plugins", nil, kernelOf(d).Calls)
	// A driver that comes back finds its containers at the gate.
	if _, err := h.Synchronize(t.Context(), []*nri.PodSandbox{podNo(1)}, nil); err != nil {
		t.Fatal(err)
	}
	d.operations.Wait()
	drivertest.WantReasonIn(t, d.store.All()[0].Refusal, reason.AttachCancelled, errPodDeleting.Error())
}

// TestPrepareWaitsForADeviceInUse checks a sandbox whose stop was not reported: the
// scheduler may allocate its device to the next claim before the kubelet has unprepared
// the first.
func TestPrepareWaitsForADeviceInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, k := attachedDriver(t)
		next := claim("b", "blue")
		next.Status.ReservedFor[0].Name, next.Status.ReservedFor[0].UID = "next", "next-uid"
		for _, c := range []*resourceapi.ResourceClaim{next} {
			c.Status.Allocation.Devices.Results[0].ShareID = ptr.To(types.UID(d.store.All()[0].ShareID))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*inUsePoll)
		defer cancel()
		results, err := d.plugin.PrepareResourceClaims(ctx, []*resourceapi.ResourceClaim{next})
		if err != nil {
			t.Fatal(err)
		}
		drivertest.WantReason(t, results["b-uid"].Err, reason.DeviceInUse, "claim default/b", "claim default/a", "pod web")

		answered := make(chan error, 1)
		go func() {
			results, err := d.plugin.PrepareResourceClaims(t.Context(), []*resourceapi.ResourceClaim{next})
			answered <- errors.Join(err, results["b-uid"].Err)
		}()
		kernelOf(d).End(drivertest.SandboxNo(1))
		if err := d.preparer.unprepare(t.Context(), "a-uid"); err != nil {
			t.Fatal(err)
		}
		if err := <-answered; err != nil {
			t.Error(err)
		}
		drivertest.Same(t, "plugins", []string{`DEL net1 in sandbox-1 netns ""`}, k.Calls)
		drivertest.Same(t, "claims", []string{"b-uid"}, []string{d.store.All()[0].Claim.UID})
	})
}

// TestPrepareOfAClaimThatAnotherPodStillHas checks that the next pod of a claim waits while a deleted
// pod still has it on this node.
func TestPrepareOfAClaimThatAnotherPodStillHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := attachedDriver(t)
		again := claim("a", "blue")
		again.Status.ReservedFor[0].Name, again.Status.ReservedFor[0].UID = "next", "next-uid"
		ctx, cancel := context.WithTimeout(t.Context(), 3*inUsePoll)
		defer cancel()
		results, err := d.plugin.PrepareResourceClaims(ctx, []*resourceapi.ResourceClaim{again})
		if err != nil {
			t.Fatal(err)
		}
		drivertest.WantReason(t, results["a-uid"].Err, reason.DeviceInUse, "pod default/web")
		kernelOf(d).End(drivertest.SandboxNo(1))
		if err := d.preparer.unprepare(t.Context(), "a-uid"); err != nil {
			t.Fatal(err)
		}
		if err := prepare(t, d, again)["a-uid"].Err; err != nil {
			t.Errorf("the next pod: %v", err)
		}
	})
}

// TestLatePrepare checks that a Prepare which its Unprepare has overtaken records nothing.
func TestLatePrepare(t *testing.T) {
	d, _ := attachedDriver(t)
	kernelOf(d).End(drivertest.SandboxNo(1))
	if err := d.preparer.unprepare(t.Context(), "a-uid"); err != nil {
		t.Fatal(err)
	}
	drivertest.WantReason(t, prepare(t, d, claim("a", "blue"))["a-uid"].Err, reason.ClaimUnprepared, "claim default/a ")
	drivertest.Same(t, "records", nil, d.store.All())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	failed := d.preparer.prepare(ended, []*resourceapi.ResourceClaim{claim("b", "blue")})
	if err := failed["b-uid"]; !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its call: %v", err)
	}
	drivertest.Same(t, "records", nil, d.store.All())
	if err := prepare(t, d, claim("b", "blue"))["b-uid"].Err; err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// TestGarbageCollectionKeepsWhatNeedsADEL checks the list of valid attachments.
func TestGarbageCollectionKeepsWhatNeedsADEL(t *testing.T) {
	d, k := attachedDriverWith(t, setup{cfg: func(c *Config) { withConf(t, c, "bridge") }})
	prepare(t, d, claim("b", "blue"))
	d.sweeper.collectGarbage(t.Context())
	conflist := string(d.store.All()[0].Attachment.Conflist)
	drivertest.Same(t, "plugins", []string{"GC " + conflist + " valid [{sandbox-1 net1}]"}, k.Calls)
}

// TestUnpreparedClaimsAreForgotten checks that an unprepared claim is remembered for its pod,
// and for a while.
func TestUnpreparedClaimsAreForgotten(t *testing.T) {
	ts := unpreparedClaims{}
	now := time.Unix(1000, 0)
	ts.add("claim", drivertest.Web.UID, now)
	drivertest.Same(t, "at once", true, ts.has("claim", drivertest.Web.UID, now))
	drivertest.Same(t, "for another pod", false, ts.has("claim", "api-uid", now))
	drivertest.Same(t, "later", false, ts.has("claim", drivertest.Web.UID, now.Add(unpreparedLife+1)))
	ts.add("other", drivertest.Web.UID, now.Add(unpreparedLife+1))
	drivertest.Same(t, "kept", 1, len(ts.times))
}

// TestSweepLeavesAJobAlone checks that no DEL of a sweep comes between those of a job that attaches the pod again.
func TestSweepLeavesAJobAlone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		unlock, err := w.Driver.operations.Lock(t.Context(), drivertest.Web.UID)
		if err != nil {
			t.Fatal(err)
		}
		w.k.End(drivertest.SandboxNo(1))
		if err := w.RunPodSandbox(t.Context(), podNo(2)); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "pods that are swept", 0, len(w.Driver.sweeper.sweepPods(t.Context())))
		unlock()
		after(time.Second)
		drivertest.Same(t, "phases", bothAttached, w.phases())
	})
}

// TestSweepLeavesAPodToItsJob checks that a sweep does not have a pod attached again whose job is about to send the
// pod's network-status: the pod would lose its addresses and get others.
func TestSweepLeavesAPodToItsJob(t *testing.T) {
	inWorldWith(t, setup{heldStatus: true}, blueConf, func(t *testing.T, w *world) {
		knowsPod(t, w.Driver, corev1.RestartPolicyAlways)
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		w.Driver.networkStatus.Forget(drivertest.Web) // as after a restart of the driver
		unlock, err := w.Driver.operations.Lock(t.Context(), drivertest.Web.UID)
		if err != nil {
			t.Fatal(err)
		}
		w.Driver.jobs.attach(drivertest.SandboxNo(1), nil, false)
		synctest.Wait()
		before := w.k.CallCount()
		w.sweeper.sweep(t.Context(), false)
		unlock()
		synctest.Wait()
		drivertest.Same(t, "plugin calls of the sweep", 0, w.k.CallCount()-before)
		if _, writing := w.Driver.networkStatus.Pending(drivertest.Web); !writing {
			t.Error("nobody writes the network-status")
		}
	})
}

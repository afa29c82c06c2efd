package driver

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
)

// watching has the driver see these pods of its node, which start no container
// again.
func watching(t *testing.T, d *Driver, pods ...*metav1.PartialObjectMetadata) {
	t.Helper()
	watchingPods(t, d, corev1.RestartPolicyNever, pods...)
}

func watchingPods(t *testing.T, d *Driver, policy corev1.RestartPolicy, pods ...*metav1.PartialObjectMetadata) {
	t.Helper()
	kube := fake.NewClientset()
	for _, p := range pods {
		pod := &corev1.Pod{ObjectMeta: p.ObjectMeta, Spec: corev1.PodSpec{RestartPolicy: policy}}
		if err := kube.Tracker().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	w, err := newPodWatch(kube, "node-1", d.podGone)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.informer.RunWithContext(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	if !cache.WaitForCacheSync(t.Context().Done(), w.informer.HasSynced) {
		t.Fatal("the watch has not synced")
	}
	d.watch = w
}

func podMeta(deleted bool) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name, UID: types.UID(web.UID)}}
	if deleted {
		m.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0)))
	}
	return m
}

func attachedDriver(t *testing.T) (*Driver, *kernel) {
	t.Helper()
	d := newDriver(t, nad("blue", blueConf))
	prepare(t, d, claim("a", "blue"))
	if err := attachNow(t, d, sandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	k := d.attacher.runner.(*kernel)
	k.calls = nil
	return d, k
}

// The runtime forgets to tell of the end of sandboxes that are older than
// itself; the namespace's absence tells.
func TestSweepDetachesFromNamespacesThatAreGone(t *testing.T) {
	d, k := attachedDriver(t)
	d.sweep(t.Context(), true)
	same(t, "plugins while the namespace is there", nil, k.calls)
	d.attacher.look = func(string) (namespace, error) { return namespace{}, errors.New("too many open files") }
	d.sweep(t.Context(), true)
	same(t, "plugins while it is not known", nil, k.calls)
	d.attacher.look = func(string) (namespace, error) { return namespace{}, podns.ErrGone }
	d.sweep(t.Context(), true)
	same(t, "plugins", []string{`DEL net1 in sandbox-1 netns ""`}, k.calls)
	same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Prepared}, phases(d.store))
}

// A DEL that was given up for one network is not tried while the sandbox has
// another: IPAM plugins that release by the sandbox alone would free its address.
func TestSweepLeavesWhatTheSandboxHas(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	prepare(t, d, claim("a", "blue", "blue"))
	if err := attachNow(t, d, sandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	k := d.attacher.runner.(*kernel)
	k.calls = nil
	if err := d.store.HandOver(d.store.All()[1].Key(), errors.New("busy")); err != nil {
		t.Fatal(err)
	}
	d.sweep(t.Context(), true)
	same(t, "plugins while net1 is attached", nil, k.calls)
	k.gone = map[string]bool{sandboxNo(1).NetNS: true}
	d.sweep(t.Context(), true)
	same(t, "plugins", []string{`DEL net1 in sandbox-1 netns ""`, `DEL net2 in sandbox-1 netns ""`}, k.calls)
}

// Somebody else has overwritten network-status: it is written again.
func TestSweepRepairsNetworkStatus(t *testing.T) {
	d, _ := attachedDriver(t)
	watch, err := newPodWatch(fake.NewClientset(), "node-1", d.podGone)
	if err != nil {
		t.Fatal(err)
	}
	d.watch = watch
	text, err := networkStatus(nil, d.store.All())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, shown string
		want        int
	}{{"as it was written", text, 0}, {"removed", "", 1}} {
		pod := &knownPod{restart: corev1.RestartPolicyAlways}
		pod.Namespace, pod.Name, pod.UID = web.Namespace, web.Name, types.UID(web.UID)
		pod.Annotations = map[string]string{nadv1.NetworkStatusAnnot: tt.shown}
		if err := watch.informer.GetStore().Add(pod); err != nil {
			t.Fatal(err)
		}
		d.networkStatus.outbox.forget(web)
		d.sweep(t.Context(), false)
		same(t, tt.name, tt.want, d.networkStatus.outbox.measure(time.Now()).Length)
	}
}

// What a sweep finds and cannot clear is counted until it is cleared.
func TestOrphansAreCounted(t *testing.T) {
	d, k := attachedDriver(t)
	is := func(what string, want map[string]int) {
		t.Helper()
		all := map[string]int{orphanDebt: 0, orphanSandbox: 0, orphanClaim: 0, orphanCache: 0, orphanDamaged: 0}
		maps.Copy(all, want)
		same(t, what, all, d.orphans())
	}
	is("before a sweep", nil)
	d.sweep(t.Context(), true)
	is("while all is well", nil)
	d.attacher.look = func(string) (namespace, error) { return namespace{}, podns.ErrGone }
	k.fails("DEL net1", final("busy"))
	k.orphans = []cniexec.Orphan{{Network: "blue"}, {Network: "red"}}
	d.sweep(t.Context(), true)
	is("with a plugin that fails", map[string]int{orphanSandbox: 1, orphanCache: 2})
	if err := d.store.HandOver(d.store.All()[0].Key(), errors.New("busy")); err != nil {
		t.Fatal(err)
	}
	d.sweep(t.Context(), true)
	is("given back", map[string]int{orphanDebt: 1, orphanCache: 2})
	k.orphans = nil
	k.fails("DEL net1", nil)
	d.sweeper.debts = map[string]turn{}
	d.sweep(t.Context(), true)
	is("when it succeeds", nil)
}

// A path that is another sandbox's namespace by now is not the one meant.
func TestSweepKnowsANamespaceByItsCookie(t *testing.T) {
	d, k := attachedDriver(t)
	d.attacher.look = func(string) (namespace, error) { return namespace{cookie: 4711}, nil }
	d.sweep(t.Context(), true)
	same(t, "plugins", []string{`DEL net1 in sandbox-1 netns ""`}, k.calls)
}

// The kubelet has lost its state: nobody unprepares. A claim is forgotten only
// when pod and claim are gone from the API server and the namespace from the
// node, in two sweeps one after the other.
func TestSweepForgetsWhatIsGone(t *testing.T) {
	there := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "a-uid"}}
	namesake := there.DeepCopy()
	namesake.UID = "another-uid"
	gone := func(string) (namespace, error) { return namespace{}, podns.ErrGone }
	tests := []struct {
		name  string
		pods  []*metav1.PartialObjectMetadata
		claim *resourceapi.ResourceClaim
		netns func(string) (namespace, error)
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
			d, _ := attachedDriver(t)
			watching(t, d, tt.pods...)
			if tt.netns != nil {
				d.attacher.look = tt.netns
			}
			d.clients.Kube = fake.NewClientset()
			if tt.claim != nil {
				d.clients.Kube = fake.NewClientset(tt.claim)
			}
			d.sweep(t.Context(), false)
			same(t, "records after one sweep", 1, len(d.store.All()))
			d.sweep(t.Context(), false)
			same(t, "still there", tt.kept, len(d.store.All()) == 1)
			same(t, "gate still there", tt.kept, len(devicesIn(t, d.gate.specDir)) == 1)
		})
	}
}

// A pod that is being deleted is not attached any more.
func TestPodUnderDeletionIsNotAttached(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	prepare(t, d, claim("a", "blue"))
	watching(t, d, podMeta(true))
	h := &hooks{d: d, budget: func() time.Duration { return time.Minute }, attachWait: time.Minute}
	wantError(t, h.RunPodSandbox(t.Context(), podNo(1)), "the pod is being deleted")
	same(t, "plugins", nil, d.attacher.runner.(*kernel).calls)
	// A driver that comes back finds its containers at the gate.
	if _, err := h.Synchronize(t.Context(), []*nri.PodSandbox{podNo(1)}, nil); err != nil {
		t.Fatal(err)
	}
	d.jobs.group.Wait()
	wantError(t, errors.New(d.store.All()[0].Refusal), "the pod is being deleted")
}

// After the end of a sandbox whose stop was lost, the scheduler may give its
// device to the next claim before the kubelet has unprepared the first.
func TestPrepareWaitsForADeviceInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, k := attachedDriver(t)
		defer d.claimStatus.outbox.queue.ShutDown()
		defer d.networkStatus.outbox.queue.ShutDown()
		next := claim("b", "blue")
		next.Status.ReservedFor[0].Name, next.Status.ReservedFor[0].UID = "next", "next-uid"
		for _, c := range []*resourceapi.ResourceClaim{next} {
			c.Status.Allocation.Devices.Results[0].ShareID = ptr.To(types.UID(d.store.All()[0].ShareID))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*releasePoll)
		defer cancel()
		results, err := plugin{d}.PrepareResourceClaims(ctx, []*resourceapi.ResourceClaim{next})
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, results["b-uid"].Err, "claim default/b", "in use", "claim default/a", "pod web")

		answered := make(chan error, 1)
		go func() {
			results, err := plugin{d}.PrepareResourceClaims(t.Context(), []*resourceapi.ResourceClaim{next})
			answered <- errors.Join(err, results["b-uid"].Err)
		}()
		d.attacher.runner.(*kernel).stop(sandboxNo(1))
		if err := d.unprepare(t.Context(), "a-uid"); err != nil {
			t.Fatal(err)
		}
		if err := <-answered; err != nil {
			t.Error(err)
		}
		same(t, "plugins", []string{`DEL net1 in sandbox-1 netns ""`}, k.calls)
		same(t, "claims", []string{"b-uid"}, []string{d.store.All()[0].Claim.UID})
	})
}

// A claim that a deleted pod still has on this node is not its next pod's yet.
func TestPrepareOfAClaimThatAnotherPodStillHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := attachedDriver(t)
		defer d.claimStatus.outbox.queue.ShutDown()
		defer d.networkStatus.outbox.queue.ShutDown()
		again := claim("a", "blue")
		again.Status.ReservedFor[0].Name, again.Status.ReservedFor[0].UID = "next", "next-uid"
		ctx, cancel := context.WithTimeout(t.Context(), 3*releasePoll)
		defer cancel()
		results, err := plugin{d}.PrepareResourceClaims(ctx, []*resourceapi.ResourceClaim{again})
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, results["a-uid"].Err, "in use", "for pod web")
		d.attacher.runner.(*kernel).stop(sandboxNo(1))
		if err := d.unprepare(t.Context(), "a-uid"); err != nil {
			t.Fatal(err)
		}
		if err := prepare(t, d, again)["a-uid"].Err; err != nil {
			t.Errorf("the next pod: %v", err)
		}
	})
}

// A Prepare that was overtaken by its Unprepare brings nothing back.
func TestLatePrepare(t *testing.T) {
	d, _ := attachedDriver(t)
	d.attacher.runner.(*kernel).stop(sandboxNo(1))
	if err := d.unprepare(t.Context(), "a-uid"); err != nil {
		t.Fatal(err)
	}
	wantError(t, prepare(t, d, claim("a", "blue"))["a-uid"].Err, "unprepared for this pod already")
	same(t, "records", nil, d.store.All())
	given, cancel := context.WithCancel(t.Context())
	cancel()
	failed := d.prepare(given, []*resourceapi.ResourceClaim{claim("b", "blue")})
	wantError(t, failed["b-uid"], "context canceled")
	same(t, "records", nil, d.store.All())
}

func TestGarbageCollectionKnowsWhatIsOwed(t *testing.T) {
	d, k := attachedDriver(t)
	prepare(t, d, claim("b", "blue"))
	d.collectGarbage(t.Context())
	conflist := string(d.store.All()[0].Attachment.Conflist)
	same(t, "plugins", []string{"GC " + conflist + " valid [{sandbox-1 net1}]"}, k.calls)
}

func TestTombstonesEnd(t *testing.T) {
	var ts tombstones
	now := time.Unix(1000, 0)
	ts.bury("claim", web.UID, now)
	same(t, "at once", true, ts.has("claim", web.UID, now))
	same(t, "for another pod", false, ts.has("claim", "api-uid", now))
	same(t, "later", false, ts.has("claim", web.UID, now.Add(tombstoneLife+1)))
	ts.bury("other", web.UID, now.Add(tombstoneLife+1))
	same(t, "kept", 1, len(ts.buried))
}

func TestDebtsOfHardwareAreDueWhenItChanges(t *testing.T) {
	tried := time.Now()
	failed := turn{last: tried, next: tried.Add(debtMax), pause: debtMax}
	for _, tt := range []struct {
		name    string
		turn    turn
		after   time.Duration
		changed bool
		want    bool
	}{
		{"never tried", turn{}, 0, false, true},
		{"before its turn", failed, debtMin, false, false},
		{"at its turn", failed, debtMax, false, true},
		{"hardware has changed", failed, debtRest, true, true},
		{"hardware has changed by the DEL itself", failed, debtRest - time.Second, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.turn.due(tried.Add(tt.after), tt.changed); got != tt.want {
				t.Errorf("due: %t, want %t", got, tt.want)
			}
		})
	}
}

// An interface that a failed attempt of ours has left is no other's: what helps is
// why its DEL fails, and not another name.
func TestInterfaceOfAnOwedDELIsKnown(t *testing.T) {
	a, k := newAttacher(t)
	prepareWeb(t, a.store, []string{"eth0"}) // every namespace has one
	key := a.store.All()[0].Key()
	if err := a.store.MarkAttaching([]checkpoint.Key{key}, sandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	if err := a.store.HandOver(key, errors.New("no iptables")); err != nil {
		t.Fatal(err)
	}
	err := k.attachOnce(t, a, sandboxNo(1))
	const want = "as eth0: the pod still has the interface of an attempt before, whose DEL fails and is tried on: no iptables"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v", err)
	}
	if len(k.calls) > 0 {
		t.Errorf("plugins %v", k.calls)
	}
}

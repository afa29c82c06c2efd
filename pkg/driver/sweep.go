package driver

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podlog"
)

const (
	// sweepEvery is the interval of the sweep, which also runs at start and
	// after every connection to the runtime.
	sweepEvery = 30 * time.Second
)

// sweeper finishes what nobody else will: DELs of sandboxes whose end was
// never told, of debts, and of claims that are gone. It never ends an
// attachment on absence alone: only where the sandbox's network namespace is
// gone, and so every interface in it.
type sweeper struct {
	poked chan struct{} // of capacity 1
	// gone has the claims that the last sweep found to be gone.
	gone map[string]bool

	pulse pulse
	// left is what the last sweep could not clear.
	left atomic.Pointer[leftovers]
}

// leftovers are counts of what nobody needs and is still there.
type leftovers struct {
	// sandboxes are attachments whose DEL is owed for a sandbox that is gone.
	sandboxes int
	// claims are gone, and nobody has unprepared them.
	claims int
	// cached are attachments of which only the CNI cache knows.
	cached int
	// damaged are files of the state that were put aside.
	damaged int
}

func newSweeper() *sweeper {
	return &sweeper{poked: make(chan struct{}, 1), gone: map[string]bool{}}
}

// poke asks for a sweep soon.
func (s *sweeper) poke() {
	select {
	case s.poked <- struct{}{}:
	default:
	}
}

// runSweep sweeps until ctx ends.
func (d *Driver) runSweep(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		poked := false
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-d.sweeper.poked:
			poked = true
		}
		d.sweeper.pulse.beat()
		d.sweep(ctx, poked)
	}
}

// sweep goes over everything once. A claim counts as gone when two sweeps of
// the ticker have found it so.
func (d *Driver) sweep(ctx context.Context, poked bool) {
	left := &leftovers{}
	for pod, records := range checkpoint.ByPod(d.store.All()) {
		if ctx.Err() != nil {
			return
		}
		d.sweeper.pulse.beat()
		ctx := podlog.WithPod(ctx, pod)
		if err := d.sweepPod(ctx, pod, records); err != nil {
			klog.FromContext(ctx).Error(err, "Sweeping a pod failed; tried again")
			left.sandboxes += d.lost(pod)
		}
	}
	if !poked {
		d.sweepGone(ctx)
		d.sweepNetworkStatus()
	}
	cached, err := d.sweepCache(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cleaning the CNI cache failed; tried again")
	}
	left.cached, left.claims, left.damaged = cached, len(d.sweeper.gone), d.store.CountDamaged()
	d.sweeper.left.Store(left)
}

// lost counts the attachments of a pod whose sandbox is gone.
func (d *Driver) lost(pod attachment.PodRef) int {
	n := 0
	for _, r := range d.store.ForPod(pod.UID) {
		if r.NeedsDEL() && !d.attacher.SandboxAlive(r) {
			n++
		}
	}
	return n
}

// sweepPod runs the DELs that are owed for sandboxes that do not exist any
// more: the runtime forgets to tell of sandboxes that it had before its own
// restart, and a node that was rebooted has none of the old ones.
func (d *Driver) sweepPod(ctx context.Context, pod attachment.PodRef, records []checkpoint.Record) error {
	lost := func(r checkpoint.Record) bool { return r.NeedsDEL() && !d.attacher.SandboxAlive(r) }
	if !slices.ContainsFunc(records, lost) || d.jobs.running(pod.UID) {
		return nil // an attach that is under way clears the earlier sandbox itself
	}
	limit := min(d.attacher.Limits.Detaching(records), silentAfter/2)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, reason.Errorf(reason.DELUnfinished, "the time for sweeping a pod is over"))
	defer cancel()
	unlock, err := d.pods.lock(ctx, pod.UID)
	if err != nil {
		return err
	}
	defer unlock()
	return d.attacher.Detach(ctx, pod.UID, lost)
}

// sweepNetworkStatus has network-status written where a pod, as last seen, does
// not show what it is attached to: somebody else has overwritten it. A pod whose
// status is not stored, and which nobody is at, is attached again.
func (d *Driver) sweepNetworkStatus() {
	for pod, records := range checkpoint.ByPod(d.store.All()) {
		records = checkpoint.Networks(records)
		attached := func(r checkpoint.Record) bool { return r.Phase == checkpoint.Attached && d.attacher.SandboxAlive(r) }
		_, writing := d.networkStatus.Pending(pod)
		m := d.watch.Find(pod)
		switch {
		case len(records) == 0, !allOf(records, attached), writing, d.jobs.running(pod.UID), m == nil, m.DeletionTimestamp != nil:
		case slices.ContainsFunc(records, networkstatus.Missing):
			d.attachAgainSoon(*records[0].Sandbox)
		case !networkstatus.Shows(m.Annotations[nadv1.NetworkStatusAnnot], records):
			d.networkStatus.Repair(*records[0].Sandbox, records)
		}
	}
}

func allOf(records []checkpoint.Record, is func(checkpoint.Record) bool) bool {
	return !slices.ContainsFunc(records, func(r checkpoint.Record) bool { return !is(r) })
}

// sweepGone forgets claims that the API server does not know any more and that
// the kubelet has not unprepared: its own state was lost.
func (d *Driver) sweepGone(ctx context.Context) {
	before := d.sweeper.gone
	d.sweeper.gone = map[string]bool{}
	for pod, records := range checkpoint.ByPod(d.store.All()) {
		if !d.watch.Absent(pod) {
			continue
		}
		for _, r := range records {
			uid := r.Claim.UID
			d.sweeper.pulse.beat()
			if d.sweeper.gone[uid] || d.attacher.SandboxAlive(r) || !d.claimGone(ctx, r.Claim) {
				continue
			}
			d.sweeper.gone[uid] = true
			if !before[uid] {
				continue
			}
			logger := klog.LoggerWithValues(klog.FromContext(podlog.WithPod(ctx, pod)), "claim", klog.KRef(r.Claim.Namespace, r.Claim.Name), "claimUID", uid)
			logger.Info("Forgetting a claim that is gone and that the kubelet has not unprepared")
			if err := d.unprepare(ctx, uid); err != nil {
				logger.Error(err, "Forgetting a claim failed; tried again")
			}
		}
	}
}

// claimGone asks the API server; in doubt the claim is there.
func (d *Driver) claimGone(ctx context.Context, ref attachment.ClaimRef) bool {
	claim, err := d.clients.Kube.ResourceV1().ResourceClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && string(claim.UID) != ref.UID
}

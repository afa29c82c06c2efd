package driver

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

const (
	// sweepEvery is the interval of the sweep, which also runs at start and
	// after every connection to the runtime.
	sweepEvery = 30 * time.Second
	// debtMin and debtMax bound the pause before the next DEL of a debt.
	debtMin = 30 * time.Second
	debtMax = 10 * time.Minute
	// debtRest is the least pause, for a DEL that changes hardware and fails
	// would else be the occasion for the next.
	debtRest = 5 * time.Second
)

// sweeper finishes what nobody else will: DELs of sandboxes whose end was
// never told, of debts, and of claims that are gone. It never ends an
// attachment on absence alone: only where the sandbox's network namespace is
// gone, and so every interface in it.
type sweeper struct {
	poked chan struct{} // of capacity 1
	// hardware says that hardware has changed since the last sweep.
	hardware atomic.Bool
	// debts has when the DEL of each is tried next, and the pause after that.
	debts map[string]turn
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

type turn struct {
	last, next time.Time
	pause      time.Duration
}

// due reports whether a debt is to be tried. Those of hardware are, whatever has
// been fruitless, when hardware has changed: a driver may be back.
func (t turn) due(now time.Time, changed bool) bool {
	return !now.Before(t.next) || changed && now.Sub(t.last) >= debtRest
}

func newSweeper() *sweeper {
	return &sweeper{poked: make(chan struct{}, 1), debts: map[string]turn{}, gone: map[string]bool{}}
}

// poke asks for a sweep soon.
func (s *sweeper) poke() {
	select {
	case s.poked <- struct{}{}:
	default:
	}
}

// hardwareChanged asks for a sweep in which debts of hardware are due.
func (s *sweeper) hardwareChanged() {
	s.hardware.Store(true)
	s.poke()
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
	for pod, records := range byPod(d.store.All()) {
		if ctx.Err() != nil {
			return
		}
		d.sweeper.pulse.beat()
		ctx := d.withPod(ctx, pod)
		if err := d.sweepPod(ctx, pod, records); err != nil {
			klog.FromContext(ctx).Error(err, "Sweeping a pod failed; tried again")
			left.sandboxes += d.lost(pod)
		}
	}
	if !poked {
		d.sweepGone(ctx)
		d.sweepNetworkStatus()
	}
	changed := d.sweeper.hardware.Swap(false)
	for _, debt := range d.store.Debts() {
		d.sweeper.pulse.beat()
		ctx := d.withPod(ctx, debt.Record.Pod)
		if err := d.sweepDebt(ctx, debt, time.Now(), changed && debt.Record.Hardware != nil); err != nil {
			logOf(ctx, debt.Record).Error(err, "The DEL of a released attachment still fails; tried again", "since", debt.Since)
		}
	}
	cached, err := d.sweepCache(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cleaning the CNI cache failed; tried again")
	}
	left.cached, left.claims, left.damaged = cached, len(d.sweeper.gone), d.store.PutAside()
	d.sweeper.left.Store(left)
}

// lost counts the attachments of a pod whose sandbox is gone.
func (d *Driver) lost(pod attachment.PodRef) int {
	n := 0
	for _, r := range d.store.ForPod(pod.UID) {
		if r.DELOwed() && !d.attacher.there(r) {
			n++
		}
	}
	return n
}

func byPod(records []checkpoint.Record) map[attachment.PodRef][]checkpoint.Record {
	out := map[attachment.PodRef][]checkpoint.Record{}
	for _, r := range records {
		out[r.Pod] = append(out[r.Pod], r)
	}
	return out
}

// sweepPod runs the DELs that are owed for sandboxes that do not exist any
// more: the runtime forgets to tell of sandboxes that it had before its own
// restart, and a node that was rebooted has none of the old ones.
func (d *Driver) sweepPod(ctx context.Context, pod attachment.PodRef, records []checkpoint.Record) error {
	lost := func(r checkpoint.Record) bool { return r.DELOwed() && !d.attacher.there(r) }
	if !slices.ContainsFunc(records, lost) || d.jobs.running(pod.UID) {
		return nil // an attach that is under way clears the earlier sandbox itself
	}
	limit := min(d.attacher.limits.detaching(records), silentAfter/2)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the time for sweeping a pod is over"))
	defer cancel()
	unlock, err := d.pods.lock(ctx, pod.UID)
	if err != nil {
		return err
	}
	defer unlock()
	return d.attacher.detach(ctx, pod.UID, lost)
}

// sweepNetworkStatus has network-status written where a pod, as last seen, does
// not show what it is attached to: somebody else has overwritten it. A pod whose
// status is not stored, and which nobody is at, is attached again.
func (d *Driver) sweepNetworkStatus() {
	for pod, records := range byPod(d.store.All()) {
		records = networksIn(records)
		attached := func(r checkpoint.Record) bool { return r.Phase == checkpoint.Attached && d.attacher.there(r) }
		_, writing := d.networkStatus.outbox.look(pod)
		m := d.watch.find(pod)
		switch {
		case len(records) == 0, !allOf(records, attached), writing, d.jobs.running(pod.UID), m == nil, m.DeletionTimestamp != nil:
		case slices.ContainsFunc(records, statusMissing):
			d.attachAgainSoon(*records[0].Sandbox)
		case !showsNetworks(m.Annotations[nadv1.NetworkStatusAnnot], records):
			d.networkStatus.repair(*records[0].Sandbox, records)
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
	for pod, records := range byPod(d.store.All()) {
		if !d.watch.absent(pod) {
			continue
		}
		for _, r := range records {
			uid := r.Claim.UID
			d.sweeper.pulse.beat()
			if d.sweeper.gone[uid] || d.attacher.there(r) || !d.claimGone(ctx, r.Claim) {
				continue
			}
			d.sweeper.gone[uid] = true
			if !before[uid] {
				continue
			}
			logger := klog.LoggerWithValues(klog.FromContext(d.withPod(ctx, pod)), "claim", klog.KRef(r.Claim.Namespace, r.Claim.Name), "claimUID", uid)
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

// attachedIn reports whether a sandbox has, or may have, networks. A DEL for
// something else in it may free their addresses, too: IPAM plugins may release by
// the sandbox alone.
func (d *Driver) attachedIn(sandboxID string) bool {
	return slices.ContainsFunc(d.store.All(), func(r checkpoint.Record) bool { return r.DELOwed() && inSandbox(sandboxID)(r) })
}

// sweepDebt tries the DEL of a debt when it is its turn, and nothing else is
// attached in its sandbox.
func (d *Driver) sweepDebt(ctx context.Context, debt checkpoint.Debt, now time.Time, changed bool) error {
	name := debt.Record.DELKey()
	t := d.sweeper.debts[name]
	if !t.due(now, changed) || d.attachedIn(debt.Record.Sandbox.ID) {
		return nil
	}
	if err := d.attacher.runDel(ctx, debt.Record, d.attacher.there(debt.Record)); err != nil {
		t.pause = min(max(2*t.pause, debtMin), debtMax)
		t.last, t.next = now, now.Add(t.pause)
		d.sweeper.debts[name] = t
		return err
	}
	delete(d.sweeper.debts, name)
	logOf(ctx, debt.Record).Info("The DEL of a released attachment has succeeded", "since", debt.Since)
	return d.store.Settle(debt)
}

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

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
)

const (
	// sweepEvery is the interval of the sweep, which also runs after every connection to the
	// runtime.
	sweepEvery = 30 * time.Second
	// sweepWait is how long a sweep waits for the DELs that it has begun, before it goes on and
	// counts what is left.
	sweepWait = 5 * time.Second
)

// sweeper finishes what nobody else does: DELs of sandboxes whose end the runtime did not
// report, and claims that are gone. It never ends an attachment only because something is
// absent: the sandbox's network namespace must be gone, and with it every interface in it.
type sweeper struct {
	*parts
	heartbeat background.Heartbeat
	// tasks are what sweeps have begun: a plugin that hangs delays nothing else.
	tasks background.Tasks
	// goneClaims has the claims that were gone in the latest sweep of the ticker.
	goneClaims map[string]bool
	// leftovers has what the latest sweep could not clean up, and before that what begin has found.
	leftovers atomic.Pointer[leftovers]
}

// leftovers counts what nobody needs and still exists.
type leftovers struct {
	// sandboxes counts attachments in sandboxes that are gone.
	sandboxes int
	// claims counts claims that are gone and not unprepared.
	claims int
	// cached counts attachments that are only in the CNI cache.
	cached int
	// damaged counts files of the state that were put aside.
	damaged int
}

// run sweeps until ctx ends.
func (s *sweeper) run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		requested := false
		select {
		case <-ctx.Done():
			s.tasks.Wait(context.WithoutCancel(ctx), sweepWait) // they begin operations
			return nil
		case <-tick.C:
		case <-s.sweeps.C():
			requested = true
		}
		s.heartbeat.Beat()
		s.sweep(ctx, requested)
	}
}

// sweep checks everything once. A claim counts as gone if two sweeps of the ticker have found
// it gone.
func (s *sweeper) sweep(ctx context.Context, requested bool) {
	left := &leftovers{}
	swept := s.sweepPods(ctx)
	s.tasks.Wait(ctx, sweepWait)
	for _, pod := range swept {
		left.sandboxes += s.countLateDELs(pod)
	}
	if !requested {
		s.sweepClaims(ctx)
		s.sweepNetworkStatus()
		s.edits.sweep()
		s.jobs.sweep()
	}
	s.unclaimed.attachPending()
	s.checker.lookAtAll()
	err := s.cleanCache(ctx)
	s.tasks.Wait(ctx, sweepWait)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		var orphans []cniexec.Cached
		orphans, err = s.orphans()
		left.cached = len(orphans)
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cleaning the CNI cache failed; the next sweep tries again")
	}
	left.claims, left.damaged = len(s.goneClaims), s.store.CountDamaged()
	s.leftovers.Store(left)
}

// needsLateDEL reports whether a record needs a DEL and its sandbox is gone.
func (s *sweeper) needsLateDEL(r checkpoint.Record) bool {
	return r.NeedsDEL() && !s.attacher.SandboxAlive(r)
}

// countLateDELs counts the attachments of a pod whose sandbox is gone.
func (s *sweeper) countLateDELs(pod attachment.PodRef) int {
	n := 0
	for _, r := range s.store.ForPod(pod.UID) {
		if s.needsLateDEL(r) {
			n++
		}
	}
	return n
}

// sweepPods begins to sweep the pods with records of sandboxes that do not exist any more, and returns
// these pods. A running attach detaches the earlier sandbox of its pod itself.
func (s *sweeper) sweepPods(ctx context.Context) (swept []attachment.PodRef) {
	for pod, records := range checkpoint.ByPod(s.store.All()) {
		s.heartbeat.Beat()
		if !slices.ContainsFunc(records, s.isOver) || s.jobs.running(pod.UID) {
			continue
		}
		swept = append(swept, pod)
		s.tasks.Start("pod "+pod.UID, func() {
			if err := s.sweepPod(ctx, pod, records); err != nil && !errors.Is(err, operations.ErrGoesFirst) {
				klog.FromContext(operations.WithPod(ctx, pod)).Error(err, "Sweeping a pod failed; the next sweep tries again")
			}
		})
	}
	return swept
}

// isOver reports whether a record needs a late DEL, or exists only for a sandbox that is gone.
func (s *sweeper) isOver(r checkpoint.Record) bool {
	return s.needsLateDEL(r) || r.Unclaimed() && !s.attacher.SandboxAlive(r)
}

// sweepPod runs the DELs for sandboxes that do not exist any more, and forgets what pods had
// in them without a claim: the runtime does not report sandboxes from before its own restart,
// and none of them survives a reboot.
func (s *sweeper) sweepPod(ctx context.Context, pod attachment.PodRef, records []checkpoint.Record) error {
	op := operations.Operation{
		Pod: pod, Manner: operations.Yielding, Detaching: true,
		Limit: s.attacher.Limits.Detaching(records), Over: reason.Errorf(reason.DELUnfinished, "the time for sweeping a pod is over"),
	}
	return s.operations.Run(ctx, op, func(ctx context.Context) error {
		if err := s.attacher.Detach(ctx, pod.UID, s.needsLateDEL); err != nil {
			return err
		}
		return s.forgetUnclaimed(pod, s.isOver)
	})
}

// sweepNetworkStatus writes network-status again for pods that, as last seen, do not show
// their attachments: another client has overwritten it. If a pod's status is not stored and
// nobody stores it, it attaches the pod again.
func (s *sweeper) sweepNetworkStatus() {
	for pod, records := range checkpoint.ByPod(s.store.All()) {
		records = checkpoint.Networks(records)
		attached := func(r checkpoint.Record) bool { return r.Phase == checkpoint.Attached && s.attacher.SandboxAlive(r) }
		_, writing := s.networkStatus.Pending(pod)
		m := s.watch.Find(pod)
		switch {
		case len(records) == 0, checkpoint.AnyAdopted(records): // Multus wrote theirs
		case !all(records, attached), writing, s.jobs.running(pod.UID), m == nil, m.DeletionTimestamp != nil:
		case slices.ContainsFunc(records, networkstatus.Missing):
			s.jobs.attachAgainSoon(*records[0].Sandbox)
		case !networkstatus.Shows(m.Annotations[nadv1.NetworkStatusAnnot], records):
			s.networkStatus.Repair(*records[0].Sandbox, records)
		}
	}
}

// all reports whether all records match.
func all(records []checkpoint.Record, match func(checkpoint.Record) bool) bool {
	return !slices.ContainsFunc(records, func(r checkpoint.Record) bool { return !match(r) })
}

// sweepClaims unprepares claims that are gone from the API server and that the kubelet has
// not unprepared, because its own state was lost.
func (s *sweeper) sweepClaims(ctx context.Context) {
	before := s.goneClaims
	s.goneClaims = map[string]bool{}
	for pod, records := range checkpoint.ByPod(s.store.All()) {
		if !s.watch.absent(pod) {
			continue
		}
		for _, r := range records {
			uid := r.Claim.UID
			s.heartbeat.Beat()
			if r.Unclaimed() || s.goneClaims[uid] || s.attacher.SandboxAlive(r) || !s.isGone(ctx, r.Claim) {
				continue
			}
			s.goneClaims[uid] = true
			if !before[uid] {
				continue
			}
			logger := klog.LoggerWithValues(klog.FromContext(operations.WithPod(ctx, pod)), "claim", klog.KRef(r.Claim.Namespace, r.Claim.Name), "claimUID", uid)
			s.tasks.Start("claim "+uid, func() {
				logger.Info("Unpreparing a claim that is gone and that the kubelet has not unprepared")
				if err := s.preparer.unprepare(ctx, uid); err != nil {
					logger.Error(err, "Unpreparing a claim that is gone failed; the next sweep tries again")
				}
			})
		}
	}
}

// isGone asks the API server for a claim. It returns false if that is unknown.
func (s *sweeper) isGone(ctx context.Context, ref attachment.ClaimRef) bool {
	claim, err := s.clients.Kube.ResourceV1().ResourceClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && string(claim.UID) != ref.UID
}

package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podlog"
)

const (
	// drainTime is what attaches and detaches under way get when the driver
	// stops.
	drainTime = 5 * time.Second
	// slowAttach is how long attaching takes without a word.
	slowAttach = time.Second
	// freshFailure is how long a failure for good stands before the runtime's
	// next request for a container begins another attempt. The kubelet asks
	// every 11–15 s.
	freshFailure = 5 * time.Second
)

// withdrawn is why attaching a sandbox is no longer wanted: no failure, and
// nobody is told of it.
type withdrawn string

func (w withdrawn) Error() string           { return w.ReasonCode().Text(string(w)) }
func (w withdrawn) ReasonCode() reason.Code { return reason.AttachCancelled }

const (
	errPodGoing   = withdrawn("the pod is being deleted")
	errReplaced   = withdrawn("the pod has a newer sandbox")
	errStopped    = withdrawn("the sandbox was stopped")
	errUnprepared = withdrawn("the claim was unprepared")
	errDriverStop = withdrawn("the driver was stopped")
)

var errNotBegun = reason.Errorf(reason.AttachNotBegun, "its sandbox was made without nadra's hook; it is being attached now")

// job is the attaching of one sandbox. It outlives the hook that began it.
type job struct {
	sandbox attachment.Sandbox
	begun   time.Time
	// limit is how long it may take.
	limit  time.Duration
	cancel context.CancelCauseFunc
	tried  chan struct{} // closed after the first attempt
	done   chan struct{} // closed at the end

	mu sync.Mutex // guards what follows, and the closing of tried and done
	// watched is true while a hook waits, which then tells of a failure.
	watched bool
	err     error // of the end, or of the latest attempt
	ended   time.Time
	held    int // containers that were let go to the gate meanwhile
}

// running reports whether the job may still attach.
func (j *job) running() bool {
	select {
	case <-j.done:
		return false
	default:
		return true
	}
}

// failed notes an attempt that is to be repeated, and reports whether it was
// the first.
func (j *job) failed(why error) (first bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	first, j.err = j.err == nil, why
	if first {
		close(j.tried)
	}
	return first
}

// end notes the end, and reports whether a hook waits for it.
func (j *job) end(why error) (watched bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		close(j.tried)
	}
	j.err, j.ended = why, time.Now()
	close(j.done)
	return j.watched
}

// hold reports whether a new container is the gate's to hold, and counts it: the
// job runs, and no attempt of it has failed.
func (j *job) hold() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.running() || j.err != nil {
		return false
	}
	j.held++
	return true
}

// heldAtEnd is how many containers the gate held; it does not change any more
// once the job has ended.
func (j *job) heldAtEnd() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.held
}

// unfailed reports whether the job runs and no attempt of it has failed.
func (j *job) unfailed() bool {
	_, err := j.failure()
	return j.running() && err == nil
}

// failure returns when and why the job ended without attaching; while it runs,
// why its latest attempt failed.
func (j *job) failure() (ended time.Time, why error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ended, j.err
}

// jobs are the sandboxes that are being attached, and those that could not be.
// There is one at most for each pod: its latest sandbox.
type jobs struct {
	mu    sync.Mutex
	byPod map[string]*job
	group sync.WaitGroup
	// base ends some time after the driver is told to stop.
	base context.Context
}

// of returns the job of a sandbox; nil when there is none.
func (js *jobs) of(s attachment.Sandbox) *job {
	js.mu.Lock()
	defer js.mu.Unlock()
	if j := js.byPod[s.Pod.UID]; j != nil && j.sandbox.ID == s.ID {
		return j
	}
	return nil
}

// running reports whether the pod is being attached.
func (js *jobs) running(podUID string) bool {
	js.mu.Lock()
	defer js.mu.Unlock()
	j := js.byPod[podUID]
	return j != nil && j.running()
}

// forget removes the pod's job, if it is of this sandbox or of any ("").
func (js *jobs) forget(podUID, sandboxID string, cause withdrawn) {
	js.mu.Lock()
	defer js.mu.Unlock()
	j := js.byPod[podUID]
	if j == nil || sandboxID != "" && j.sandbox.ID != sandboxID {
		return
	}
	j.cancel(cause)
	delete(js.byPod, podUID)
}

// start returns the running job of the sandbox, or begins one in place of the
// pod's earlier one.
func (js *jobs) start(s attachment.Sandbox, limit time.Duration, watched bool, run func(context.Context, *job)) *job {
	js.mu.Lock()
	defer js.mu.Unlock()
	if old := js.byPod[s.Pod.UID]; old != nil {
		if old.sandbox.ID == s.ID && old.running() {
			return old
		}
		old.cancel(errReplaced)
	}
	ctx, cancel := context.WithCancelCause(js.base)
	j := &job{sandbox: s, begun: time.Now(), limit: limit, cancel: cancel, tried: make(chan struct{}), done: make(chan struct{}), watched: watched}
	if js.byPod == nil {
		js.byPod = map[string]*job{}
	}
	js.byPod[s.Pod.UID] = j
	js.group.Go(func() {
		defer cancel(nil)
		run(ctx, j)
	})
	return j
}

// succeeded forgets a job that has nothing more to tell.
func (js *jobs) succeeded(j *job) {
	js.mu.Lock()
	defer js.mu.Unlock()
	if js.byPod[j.sandbox.Pod.UID] == j {
		delete(js.byPod, j.sandbox.Pod.UID)
	}
}

// attachSandbox begins to attach the sandbox, unless that is under way. A hook
// that watches is told of a failure, and nobody else.
func (d *Driver) attachSandbox(s attachment.Sandbox, watched bool) *job {
	return d.jobs.start(s, d.attacher.Limits.Attaching(d.store.ForPod(s.Pod.UID)), watched, d.runJob)
}

// attachAgain begins to attach a sandbox again that is attached and whose
// network-status is not stored, so that no container of it has started: all that it
// has is taken down first. It leaves alone a sandbox whose status is stored
// meanwhile.
func (d *Driver) attachAgain(ctx context.Context, s attachment.Sandbox) error {
	ctx, cancel := context.WithTimeoutCause(ctx, attach.DetachTime, reason.Errorf(reason.DELUnfinished, "the time for attaching a sandbox again is over"))
	defer cancel()
	unlock, err := d.pods.lock(ctx, s.Pod.UID)
	if err != nil {
		return err
	}
	defer unlock()
	waiting := slices.DeleteFunc(d.store.ForPod(s.Pod.UID), func(r checkpoint.Record) bool {
		return r.Phase != checkpoint.Attached || !networkstatus.Missing(r) || !checkpoint.InSandbox(s.ID)(r)
	})
	if len(waiting) == 0 {
		return nil // it was detached meanwhile
	}
	switch err := d.store.MarkUnlistedDetaching(checkpoint.Keys(waiting)...); {
	case errors.Is(err, checkpoint.ErrStatusStored):
		return nil
	case err != nil:
		return err
	}
	klog.FromContext(podlog.WithPod(ctx, s.Pod)).Info("Attaching a pod again: its network-status could not be stored in time", "sandbox", s.ID)
	d.attachSandbox(s, false)
	return nil
}

// attachAgainSoon is attachAgain for callers that nobody may wait for. Should it
// fail, the sweep comes to it.
func (d *Driver) attachAgainSoon(s attachment.Sandbox) {
	d.jobs.group.Go(func() {
		if err := d.attachAgain(d.jobs.base, s); err != nil {
			klog.FromContext(podlog.WithPod(d.jobs.base, s.Pod)).Error(err, "A pod's containers wait to be attached again; tried with the next sweep", "sandbox", s.ID)
		}
	})
}

// runJob attaches one sandbox while no other operation on its pod runs, and
// tells what became of it.
func (d *Driver) runJob(ctx context.Context, j *job) {
	ctx, cancel := context.WithTimeoutCause(podlog.WithPod(ctx, j.sandbox.Pod), j.limit, reason.Errorf(reason.AttachTimeout, "no success within %s", j.limit))
	defer cancel()
	started := time.Now()
	slow := time.AfterFunc(slowAttach, func() { d.reportSlow(ctx, j) })
	defer slow.Stop()
	unlock, err := d.pods.lock(ctx, j.sandbox.Pod.UID)
	if err == nil {
		defer unlock()
		err = d.attachPod(ctx, j)
	}
	if err == nil {
		d.networkStatus.Set(j.sandbox, d.store.ForPod(j.sandbox.Pod.UID)) // ahead of all else: containers wait
		d.tellMetadata(ctx, j.sandbox.Pod)
		klog.FromContext(ctx).Info("Attached pod", "sandbox", j.sandbox.ID, "took", time.Since(started))
		d.reportAttach(j.sandbox)
		j.end(nil)
		d.jobs.succeeded(j)
		d.measureEnd(j, nil)
		return
	}
	d.giveUp(ctx, j, fmt.Errorf("attaching pod %s/%s: %w", j.sandbox.Pod.Namespace, j.sandbox.Pod.Name, err))
}

// attachPod attaches the sandbox of a job unless its pod is being deleted.
func (d *Driver) attachPod(ctx context.Context, j *job) error {
	if d.watch.going(j.sandbox.Pod) {
		return errPodGoing
	}
	return d.attacher.Attach(ctx, j.sandbox, func(trouble error) {
		klog.FromContext(ctx).Info("Attaching failed; trying again", "sandbox", j.sandbox.ID, "err", trouble)
		if j.failed(trouble) {
			d.reportTrouble(j.sandbox, trouble)
		}
	})
}

// giveUp tells why a sandbox is not attached: its pod's events and claims, the
// hook where one waits, and otherwise the gate.
func (d *Driver) giveUp(ctx context.Context, j *job, err error) {
	gone := errors.As(err, new(withdrawn))
	if gone {
		klog.FromContext(ctx).Info("Attaching was given up", "sandbox", j.sandbox.ID, "err", err)
	} else {
		klog.FromContext(ctx).Error(err, "Attaching failed", "sandbox", j.sandbox.ID)
		d.reportTrouble(j.sandbox, err)
	}
	told := j.end(err)
	d.measureEnd(j, err)
	if told { // and fails the sandbox
		return
	}
	switch {
	case errors.Is(err, errPodGoing):
		d.refuse(ctx, j.sandbox, errPodGoing)
	case !gone: // else another sandbox, or driver, may be attaching the same records
		d.refuse(ctx, j.sandbox, err)
	}
}

// refuse has the gate let go, with an error, of the containers that it holds
// for a sandbox that will not be attached.
func (d *Driver) refuse(ctx context.Context, s attachment.Sandbox, why error) {
	lacks := d.attacher.Missing(s)
	var refused []checkpoint.Key
	for _, r := range d.store.ForPod(s.Pod.UID) {
		if lacks(r) && r.Refusal == "" {
			refused = append(refused, r.Key())
		}
	}
	if len(refused) == 0 {
		return
	}
	if err := d.store.MarkRefused(refused, why.Error()); err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		klog.FromContext(ctx).Error(err, "Containers are held until the gate's time is over", "sandbox", s.ID)
	}
}

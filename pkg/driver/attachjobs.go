package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
)

const (
	// slowAttach is the time after which attaching is reported as slow. On two cores, most of 100 pods that are
	// created at once take more than a second.
	slowAttach = 5 * time.Second
	// freshFailure is how long a failure is final before the runtime's next request for a
	// container begins another attach. The kubelet asks every 11–15 s.
	freshFailure = 5 * time.Second
	// mostProven limits what is kept of networks that work, of which tenants may make any number.
	mostProven = 1000
)

// attachJobs attaches sandboxes. It has the jobs of sandboxes that are being attached, and of
// those that could not be: at most one for each pod, that of its latest sandbox.
type attachJobs struct {
	*pods
	edits   *podEdits
	checker *checker

	mu    sync.Mutex
	byPod map[string]*job
	// proven has the networkIn whose latest attach has succeeded, and whether that took at most quickTry. The failure of a
	// pod that requests something of its own, such as an address, says nothing about other pods.
	proven *lru.Cache
}

func newAttachJobs(p *pods, edits *podEdits, checker *checker) *attachJobs {
	return &attachJobs{pods: p, edits: edits, checker: checker, byPod: map[string]*job{}, proven: lru.New(mostProven)}
}

// attach returns the running job of the sandbox. If there is none it starts one, which
// replaces the pod's earlier job. The job first calls prepare, unless that is nil. A hook that
// watches returns a failure, and then nothing else reports it.
func (js *attachJobs) attach(s attachment.Sandbox, prepare func(context.Context) error, watched bool) *job {
	js.mu.Lock()
	defer js.mu.Unlock()
	var before error
	if old := js.byPod[s.Pod.UID]; old != nil {
		if old.sandbox.ID == s.ID && old.running() {
			return old
		}
		if old.sandbox.ID == s.ID {
			_, before = old.failure()
		}
		old.cancel(errReplaced)
	}
	ctx, cancel := context.WithCancelCause(js.operations.Context())
	j := &job{
		sandbox: s, begun: time.Now(), cancel: cancel, before: before, prepare: prepare, watched: watched,
		prepared: make(chan struct{}), tried: make(chan struct{}), done: make(chan struct{}),
	}
	if prepare == nil {
		j.recorded(js.limit(s))
	}
	js.byPod[s.Pod.UID] = j
	js.operations.Go(func(context.Context) {
		defer cancel(nil)
		js.run(ctx, j)
	})
	return j
}

// run prepares and attaches one sandbox while no other operation on its pod runs, and reports the
// result.
func (js *attachJobs) run(ctx context.Context, j *job) {
	ctx = operations.WithPod(ctx, j.sandbox.Pod)
	started := time.Now()
	slow := time.AfterFunc(slowAttach, func() { js.report.attachSlow(ctx, j) })
	defer slow.Stop()
	if err := js.prepare(ctx, j); err != nil {
		js.fail(ctx, j, err)
		return
	}
	js.attachRecorded(ctx, j, started)
}

// prepare writes the records that the sandbox of a job gets besides those of its pod's claims.
func (js *attachJobs) prepare(ctx context.Context, j *job) error {
	if j.prepare == nil {
		return nil
	}
	op := attaching(j.sandbox.Pod, operations.AttachTime)
	ctx, cancel := context.WithTimeoutCause(ctx, op.Limit, op.Over)
	defer cancel()
	if err := j.prepare(ctx); err != nil {
		return err
	}
	j.recorded(js.limit(j.sandbox))
	return nil
}

// limit returns the limit for attaching the records of a sandbox's pod.
func (js *attachJobs) limit(s attachment.Sandbox) time.Duration {
	return js.attacher.Limits.Attaching(js.store.ForPod(s.Pod.UID))
}

// attaching describes the preparing or attaching of a pod.
func attaching(pod attachment.PodRef, limit time.Duration) operations.Operation {
	return operations.Operation{Pod: pod, Limit: limit, Over: reason.Errorf(reason.AttachTimeout, "no success within %s", limit)}
}

// attachRecorded attaches a sandbox that has its records, and reports the result.
func (js *attachJobs) attachRecorded(ctx context.Context, j *job, started time.Time) {
	fail := func(ctx context.Context, err error) {
		js.fail(ctx, j, fmt.Errorf("attaching pod %s: %w", j.sandbox.Pod, err))
	}
	err := js.operations.Do(ctx, attaching(j.sandbox.Pod, j.operation().Limit), func(ctx context.Context) error {
		if err := js.attachPod(ctx, j); err != nil {
			js.networkStatus.Forget(j.sandbox.Pod)
			fail(ctx, err)
			return nil
		}
		js.succeed(ctx, j, started)
		return nil
	})
	if err != nil { // the pod was not locked
		fail(ctx, err)
	}
}

// attachPod attaches the sandbox of a job unless its pod is being deleted.
func (js *attachJobs) attachPod(ctx context.Context, j *job) error {
	if js.watch.deleting(j.sandbox.Pod) {
		return errPodDeleting
	}
	return js.attacher.Attach(ctx, j.sandbox, func(err error, passing bool) (again bool) {
		js.learn(j, err)
		first, again := j.failed(err, passing)
		if again {
			klog.FromContext(ctx).Info("Attaching failed; trying again", "sandbox", j.sandbox.ID, "err", err)
		}
		if first && again {
			js.report.attachFailed(j.sandbox, err)
		}
		return again
	})
}

// succeed reports that a sandbox is attached.
func (js *attachJobs) succeed(ctx context.Context, j *job, started time.Time) {
	js.networkStatus.Set(j.sandbox, js.store.ForPod(j.sandbox.Pod.UID)) // first, because containers wait for it
	js.updateMetadata(ctx, j.sandbox.Pod)
	js.learn(j, nil)
	klog.FromContext(ctx).Info("Attached pod", "sandbox", j.sandbox.ID, "duration", time.Since(started))
	js.reportAttached(j.sandbox)
	j.end(nil)
	runtime.Gosched() // the hook, for which all pods of the node wait, answers before the rest is done
	js.remove(j)
	js.measure(j, nil)
	js.edits.changed(j.sandbox.Pod.UID)
	js.checker.lookAt(j.sandbox.Pod, js.store.ForPod(j.sandbox.Pod.UID))
}

// reportAttached reports that a sandbox is attached. What it reports is written after the sandbox's network-status, for
// which containers wait, or after networkstatus.Late.
func (js *attachJobs) reportAttached(s attachment.Sandbox) {
	status, waiting := js.networkStatus.Pending(s.Pod)
	send := js.report.attached(s, js.attacher.Missing(s))
	if !waiting {
		send()
		return
	}
	js.operations.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, networkstatus.Late)
		defer cancel()
		background.Await(ctx, status.Stored)
		send()
	})
}

// fail reports why a sandbox is not attached: on the pod and its claims, to the hook if one
// waits, and otherwise to the gate. prepare has reported its own failure on the pod.
func (js *attachJobs) fail(ctx context.Context, j *job, err error) {
	switch {
	case isCancelled(err):
		klog.FromContext(ctx).Info("Attaching was cancelled", "sandbox", j.sandbox.ID, "err", err)
	case j.isRecorded():
		klog.FromContext(ctx).Error(err, "Attaching failed", "sandbox", j.sandbox.ID)
		js.report.attachFailed(j.sandbox, err)
	}
	watched := j.end(err)
	if j.isRecorded() {
		js.measure(j, err)
	}
	if watched { // the hook fails the sandbox
		return
	}
	switch {
	case errors.Is(err, errPodDeleting):
		js.refuse(ctx, j.sandbox, errPodDeleting)
	case !isCancelled(err): // otherwise another sandbox, or driver, may be attaching the same records
		js.refuse(ctx, j.sandbox, err)
	}
}

// refuse makes the gate fail the containers that it holds for a sandbox that will not be
// attached.
func (js *attachJobs) refuse(ctx context.Context, s attachment.Sandbox, why error) {
	missing := js.attacher.Missing(s)
	var refused []checkpoint.Key
	for _, r := range js.store.ForPod(s.Pod.UID) {
		if missing(r) && !r.Refused(js.store.BootID()) {
			refused = append(refused, r.Key())
		}
	}
	if len(refused) == 0 {
		return
	}
	if err := js.store.MarkRefused(refused, why.Error()); err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
		klog.FromContext(ctx).Error(err, "Refusing containers failed; the gate holds them until its time is over", "sandbox", s.ID)
	}
}

// remove removes a job that has succeeded.
func (js *attachJobs) remove(j *job) {
	js.mu.Lock()
	defer js.mu.Unlock()
	if js.byPod[j.sandbox.Pod.UID] == j {
		delete(js.byPod, j.sandbox.Pod.UID)
	}
}

// measure counts a job that has ended, and the containers that the gate has held meanwhile.
func (js *attachJobs) measure(j *job, err error) {
	js.cfg.Metrics.PodEnded(time.Since(j.begun), err, isCancelled(err))
	switch {
	case err == nil:
		js.cfg.Metrics.Gate(metrics.Released, j.heldAtEnd())
	case !isCancelled(err):
		js.cfg.Metrics.Gate(metrics.Refused, j.heldAtEnd())
	}
}

// attempt returns the job that attaches the sandbox. It begins one if there is none, or if the latest has failed
// a while ago: if the cause is repaired, nobody needs to delete the pod.
func (js *attachJobs) attempt(s attachment.Sandbox, begin func() *job) *job {
	latest := js.of(s)
	if latest != nil && (latest.running() || latest.fresh()) {
		return latest
	}
	j := begin()
	if latest == nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.before = errNotBegun
	}
	return j
}

// attachAgain detaches and attaches a sandbox whose network-status is not stored, so that no
// container of it has started, or only the networks that an edit has added to it. It leaves a sandbox alone whose status is stored meanwhile.
func (js *attachJobs) attachAgain(ctx context.Context, s attachment.Sandbox) error {
	op := operations.Operation{Pod: s.Pod, Limit: operations.DetachTime, Over: reason.Errorf(reason.DELUnfinished, "the time for attaching a sandbox again is over")}
	return js.operations.Do(operations.WithPod(ctx, s.Pod), op, func(ctx context.Context) error { return js.attachAgainLocked(ctx, s) })
}

// attachAgainLocked does so while no other operation on the pod runs. It leaves a network alone whose DEL would
// harm another one, unless all are detached.
func (js *attachJobs) attachAgainLocked(ctx context.Context, s attachment.Sandbox) error {
	waiting := checkpoint.Where(js.store.ForPod(s.Pod.UID), func(r checkpoint.Record) bool {
		return r.Phase == checkpoint.Attached && networkstatus.Unlisted(r) && checkpoint.InSandbox(s.ID)(r)
	})
	if len(waiting) == 0 {
		return nil // it was detached meanwhile
	}
	if all(waiting, func(r checkpoint.Record) bool { return r.Live(s.ID) }) {
		harms := func(r checkpoint.Record) bool { return js.attacher.Harm(r) != nil }
		stay := checkpoint.Where(waiting, harms)
		if err := js.store.MarkStatusStored(stay); err != nil || len(stay) == len(waiting) {
			return err
		}
		waiting = slices.DeleteFunc(waiting, harms)
	}
	switch err := js.store.MarkUnlistedDetaching(checkpoint.Keys(waiting)...); {
	case errors.Is(err, checkpoint.ErrStatusStored):
		return nil
	case err != nil:
		return err
	}
	klog.FromContext(ctx).Info("Attaching a pod again: its network-status could not be stored in time", "sandbox", s.ID)
	if slices.ContainsFunc(waiting, func(r checkpoint.Record) bool { return r.Awaited(s.ID) }) {
		js.attach(s, nil, false)
	} else {
		js.edits.changed(s.Pod.UID)
	}
	return nil
}

// attachAgainSoon calls attachAgain in a goroutine. If it fails, the next sweep tries again.
func (js *attachJobs) attachAgainSoon(s attachment.Sandbox) {
	js.operations.Go(func(ctx context.Context) {
		if err := js.attachAgain(ctx, s); err != nil {
			klog.FromContext(operations.WithPod(ctx, s.Pod)).Error(err, "Attaching a pod again failed; the next sweep tries again, and the containers wait", "sandbox", s.ID)
		}
	})
}

// cancel cancels and removes the pod's job, if it is of this sandbox or sandboxID is "". It reports
// whether there was one: it may write records until it has ended.
func (js *attachJobs) cancel(podUID, sandboxID string, cause cancelled) (found bool) {
	js.mu.Lock()
	defer js.mu.Unlock()
	j := js.byPod[podUID]
	if j == nil || sandboxID != "" && j.sandbox.ID != sandboxID {
		return false
	}
	j.cancel(cause)
	delete(js.byPod, podUID)
	return true
}

// sweep removes the failed jobs of pods that are gone, because no later event may remove them.
func (js *attachJobs) sweep() {
	js.mu.Lock()
	defer js.mu.Unlock()
	maps.DeleteFunc(js.byPod, func(_ string, j *job) bool { return !j.running() && js.watch.absent(j.sandbox.Pod) })
}

// podDeleted cancels the attach of a deleted pod, and makes the gate fail its containers:
// otherwise the kubelet would wait with them before it deletes anything.
func (js *attachJobs) podDeleted(pod attachment.PodRef) {
	cancelled, records := js.cancel(pod.UID, "", errPodDeleting), checkpoint.Networks(js.store.ForPod(pod.UID))
	if len(records) == 0 || !cancelled && !held(records) {
		return
	}
	op := operations.Operation{Pod: pod, Limit: operations.DetachTime, Over: reason.Errorf(reason.DELUnfinished, "the time for the containers of a deleted pod is over")}
	js.operations.Go(func(ctx context.Context) {
		ctx = operations.WithPod(ctx, pod)
		err := js.operations.Do(ctx, op, func(ctx context.Context) error {
			js.refuse(ctx, attachment.Sandbox{Pod: pod}, errPodDeleting)
			return nil
		})
		if err != nil {
			klog.FromContext(ctx).Error(err, "Refusing containers failed; the gate holds them until its time is over")
		}
	})
}

// held reports whether the gate holds containers of a pod with these records.
func held(records []checkpoint.Record) bool {
	return slices.ContainsFunc(records, func(r checkpoint.Record) bool {
		return r.Phase != checkpoint.Attached || networkstatus.Missing(r)
	})
}

// of returns the job of a sandbox, or nil.
func (js *attachJobs) of(s attachment.Sandbox) *job {
	js.mu.Lock()
	defer js.mu.Unlock()
	if j := js.byPod[s.Pod.UID]; j != nil && j.sandbox.ID == s.ID {
		return j
	}
	return nil
}

// running reports whether the pod is being attached.
func (js *attachJobs) running(podUID string) bool {
	js.mu.Lock()
	defer js.mu.Unlock()
	j := js.byPod[podUID]
	return j != nil && j.running()
}

// queue counts the jobs that run, and the pods whose containers wait, by state.
func (js *attachJobs) queue(now time.Time) (running metrics.Queue, blocked map[string]int) {
	js.mu.Lock()
	defer js.mu.Unlock()
	blocked = map[string]int{podAttaching: 0, podRetrying: 0, podFailed: 0}
	for _, j := range js.byPod {
		state := j.state()
		if state == "" {
			continue
		}
		blocked[state]++
		if state != podFailed {
			running.Length++
			running.Oldest = max(running.Oldest, now.Sub(j.begun))
			if j.operation().Stuck(now) {
				running.Stuck++
			}
		}
	}
	return running, blocked
}

// networkIn is a network in the pods of a namespace. Tenants can make any network fail in their pods, for example by a name for
// the interface that the kernel refuses, so that their failures must not slow down the pods of others.
type networkIn struct {
	network   attachment.NetworkRef
	namespace string
}

// networkOf returns the network of a record in its pod's namespace.
func networkOf(r checkpoint.Record) networkIn {
	return networkIn{r.Attachment.Network, r.Pod.Namespace}
}

// doubtful reports whether the sandbox's job before this one has failed, one of its networks is not proven, or
// the gate still refuses because of an earlier sandbox or driver. Its containers are not left to the gate: one that
// the gate refuses in the end costs the kubelet's back-off, which doubles with each further request, and one that is not
// created does not.
func (js *attachJobs) doubtful(j *job) bool {
	return j.isRepeated() || slices.ContainsFunc(js.store.ForPod(j.sandbox.Pod.UID), func(r checkpoint.Record) bool {
		_, proven := js.proven.Get(networkOf(r))
		return !proven || r.Awaited(j.sandbox.ID) && r.Refused(js.store.BootID())
	})
}

// isQuick reports whether the networks of a pod were attached within quickTry the last time.
func (js *attachJobs) isQuick(pod attachment.PodRef) bool {
	return all(js.store.ForPod(pod.UID), func(r checkpoint.Record) bool {
		quick, _ := js.proven.Get(networkOf(r))
		return quick == true
	})
}

// learn remembers that the networks of the job's pod are attached, or forgets the one that has failed.
func (js *attachJobs) learn(j *job, err error) {
	if a, failed := attach.FailedIn(err); failed && a.IsPlain() {
		js.proven.Remove(networkIn{a.Network, j.sandbox.Pod.Namespace})
	}
	if err == nil {
		js.prove(js.store.ForPod(j.sandbox.Pod.UID), time.Since(j.begun) <= quickTry)
	}
}

// prove remembers the networks of records that are attached, and whether that was quick.
func (js *attachJobs) prove(records []checkpoint.Record, quick bool) {
	for _, r := range records {
		if r.Phase == checkpoint.Attached {
			js.proven.Add(networkOf(r), quick)
		}
	}
}

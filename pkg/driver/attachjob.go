package driver

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
)

// cancelled is why attaching a sandbox was cancelled. It is no failure, and nothing reports
// it to the pod.
type cancelled string

// Error returns the text with its code.
func (c cancelled) Error() string { return c.ReasonCode().Text(string(c)) }

// ReasonCode returns the code of all cancelled attaches.
func (c cancelled) ReasonCode() reason.Code { return reason.AttachCancelled }

const (
	errPodDeleting = cancelled("the pod is being deleted")
	errReplaced    = cancelled("the pod has a newer sandbox")
	errStopped     = cancelled("the sandbox was stopped")
	errUnprepared  = cancelled("the claim was unprepared")
	errDriverStop  = cancelled("the driver was stopped")
)

// isCancelled reports whether an attach was cancelled.
func isCancelled(err error) bool { return errors.As(err, new(cancelled)) }

var errNotBegun = reason.Errorf(reason.AttachNotBegun, "its sandbox was made without nadra's hook; it is being attached now")

// job is the attaching of one sandbox. It outlives the hook that began it.
type job struct {
	sandbox attachment.Sandbox
	begun   time.Time
	cancel  context.CancelCauseFunc
	// prepare writes the records that the sandbox gets besides those of its pod's claims. It may be nil.
	prepare  func(context.Context) error
	prepared chan struct{} // closed when the sandbox has its records, or at the end
	tried    chan struct{} // closed after the first try
	done     chan struct{} // closed at the end

	mu    sync.Mutex // guards the fields below, and the closing of the channels
	limit time.Duration
	// watched is true while a hook waits, which then returns a failure.
	watched bool
	err     error // of the end, or of the latest try
	ended   time.Time
	held    int // containers that were left to the gate meanwhile
	// before is why the sandbox's job before this one has failed, or errNotBegun, or nil.
	before error
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

// recorded records that the sandbox has its records, and the limit for attaching them.
func (j *job) recorded(limit time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.limit = limit
	close(j.prepared)
}

// isRecorded reports whether the sandbox has its records.
func (j *job) isRecorded() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.limit > 0
}

// operation returns when the job began, and its limit.
func (j *job) operation() operations.Begun {
	j.mu.Lock()
	defer j.mu.Unlock()
	return operations.Begun{At: j.begun, Limit: max(j.limit, operations.AttachTime)}
}

// failed records a try. It reports whether it was the first, and whether it is to be repeated: the cause
// may pass by itself, or the gate holds a container, which would be lost.
func (j *job) failed(err error, passing bool) (first, again bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	first, again, j.err = j.err == nil, passing || j.held > 0, err
	if first && again {
		close(j.tried)
	}
	return first, again
}

// end records the end, and reports whether a hook waits for it.
func (j *job) end(err error) (watched bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case <-j.tried:
	default:
		close(j.tried)
	}
	if j.limit == 0 {
		close(j.prepared)
	}
	j.err, j.ended = err, time.Now()
	close(j.done)
	return j.watched
}

// stopWatching records that no hook waits any more. It returns the error of a job that has
// ended, and nil if the gate is to decide.
func (j *job) stopWatching() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.watched = false
	if !j.running() {
		return j.err
	}
	return nil
}

// isRepeated reports whether the sandbox's job before this one has failed.
func (j *job) isRepeated() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.before != nil && !errors.Is(j.before, errNotBegun)
}

// hold reports whether the gate is to hold a new container, and counts it: the job runs, and
// no try of it has failed.
func (j *job) hold() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.running() || j.err != nil {
		return false
	}
	j.held++
	return true
}

// heldAtEnd returns the number of containers that the gate has held. The number does not
// change any more once the job has ended.
func (j *job) heldAtEnd() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.held
}

// unfailed reports whether the job runs and no try of it has failed.
func (j *job) unfailed() bool {
	_, err := j.failure()
	return j.running() && err == nil
}

// failure returns when and why the job ended without attaching. While it runs, it returns why
// the latest try failed.
func (j *job) failure() (ended time.Time, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ended, j.err
}

// why returns why the job's sandbox is not attached. The job may be nil.
func (j *job) why() error {
	if j == nil {
		return errNotBegun
	}
	limit := j.operation().Limit
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case !j.running() && j.err != nil:
		return j.err
	case j.err != nil:
		return reason.Errorf(reason.AttachRunning, "it is being tried again after: %w", j.err)
	case errors.Is(j.before, errNotBegun):
		return errNotBegun
	case j.before != nil:
		return reason.Errorf(reason.AttachRunning, "it is being tried again after: %w", j.before)
	}
	return reason.Errorf(reason.AttachRunning, "its plugins are running, for %s at most", limit)
}

// fresh reports whether the job has failed so recently that its failure is still the answer.
func (j *job) fresh() bool {
	ended, err := j.failure()
	return err != nil && time.Since(ended) <= freshFailure
}

// States of pods whose containers wait for networks.
const (
	podAttaching = "attaching" // nothing has failed yet
	podRetrying  = "retrying"  // a try has failed, and the next one will come
	podFailed    = "failed"    // the kubelet's next request for a container begins again
)

// state returns the state of the job's pod. It returns "" if the pod does not wait.
func (j *job) state() string {
	ended, err := j.failure()
	switch {
	case ended.IsZero() && err == nil:
		return podAttaching
	case ended.IsZero():
		return podRetrying
	case err == nil, isCancelled(err):
		return ""
	}
	return podFailed
}

package driver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/events"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podlog"
)

const (
	// checkAnnotation on a pod requests a CHECK of its attachments, once for each new value.
	checkAnnotation = "nadra.dev/check"
	// checkTime limits the CHECKs of one pod, which wait for other operations on it and for other
	// calls of the same plugins.
	checkTime = 10 * time.Minute
	// checkPause is the pause before another try of a check that had to yield, or got no
	// answer.
	checkPause = time.Second
)

// checker asks plugins whether attachments are still as ADD has made them (CNI specification,
// § "CHECK"): of every attached pod after the driver was started, and of a pod whose owner
// requests it.
//
// It reports a CHECK that fails and does nothing else. The pod may still work, wholly or over
// its other networks, and plugins' CHECKs are known to be wrong at times: whether the pod is
// deleted is its owner's decision.
type checker struct {
	operations  *operations.Group
	store       *checkpoint.Store
	attacher    *attach.Attacher
	watch       *podWatch
	background  *background.Group
	claimStatus *claimstatus.Writer
	events      *events.Recorder

	// began is true once the pods of an earlier driver are being checked.
	began atomic.Bool

	mu sync.Mutex
	// failed has the latest CHECK of each attachment that has failed.
	failed map[checkpoint.Key]failedCheck
}

// failedCheck is a CHECK that has failed in a sandbox.
type failedCheck struct {
	sandbox string
	err     error
}

// record keeps the results of a CHECK of these records, and drops those of records that do
// not exist any more.
func (c *checker) record(checked []checkpoint.Record, results map[checkpoint.Key]checkResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.failed
	c.failed = map[checkpoint.Key]failedCheck{}
	for _, r := range c.store.All() {
		if f, found := before[r.Key()]; found {
			c.failed[r.Key()] = f
		}
	}
	for _, r := range checked {
		delete(c.failed, r.Key())
		if err := results[r.Key()].err; err != nil {
			c.failed[r.Key()] = failedCheck{r.Sandbox.ID, err}
		}
	}
}

// latest returns the error of the latest CHECK of a record, in the sandbox that it is attached
// in.
func (c *checker) latest(r checkpoint.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, failed := c.failed[r.Key()]; failed && checkpoint.InSandbox(f.sandbox)(r) {
		return f.err
	}
	return nil
}

// checkAtStart checks a pod that an earlier driver has attached. If the rest of it is being
// attached, it waits for that.
func (c *checker) checkAtStart(s attachment.Sandbox, attaching *job) {
	c.background.Go(func(ctx context.Context) {
		if attaching != nil {
			select {
			case <-attaching.done:
			case <-ctx.Done():
				return
			}
		}
		c.check(ctx, s.Pod, false)
	})
}

// podUpdated checks a pod whose owner requests it. A value that the annotation has when the
// driver is started, or when the pod is created, requests nothing.
func (c *checker) podUpdated(before, now *metav1.PartialObjectMetadata) {
	if requestsCheck(before, now) {
		c.checkOnDemand(podRefOf(now))
	}
}

// requestsCheck reports whether a change of a pod requests a CHECK.
func requestsCheck(before, now *metav1.PartialObjectMetadata) bool {
	value := now.Annotations[checkAnnotation]
	return before.UID == now.UID && value != "" && value != before.Annotations[checkAnnotation]
}

// checkOnDemand checks a pod if it has networks of nadra's.
func (c *checker) checkOnDemand(pod attachment.PodRef) {
	if len(c.store.ForPod(pod.UID)) > 0 {
		c.background.Go(func(ctx context.Context) { c.check(ctx, pod, true) })
	}
}

// check checks a pod, and again if it had to yield to another operation on the pod. A stop of the
// driver does not wait for it, because a CHECK changes nothing.
func (c *checker) check(ctx context.Context, pod attachment.PodRef, requested bool) {
	ctx = podlog.WithPod(ctx, pod)
	op := operations.Operation{Pod: pod, Manner: operations.Yielding, Limit: checkTime, Over: reason.Errorf(reason.AttachmentChanged, "no CHECK within %s", checkTime)}
	for {
		err := c.operations.Do(ctx, op, func(ctx context.Context) error { return c.checkPod(ctx, pod, requested) })
		switch {
		case err == nil, ctx.Err() != nil:
			return
		case !errors.Is(err, operations.ErrGoesFirst):
			klog.FromContext(ctx).Error(err, "Checking a pod's networks ended early")
			return
		case !background.Sleep(ctx, checkPause):
			return
		}
	}
}

// checkPod runs CHECK for all attachments of a pod while no other operation on it runs, and
// reports the results. It returns an error if it was interrupted.
func (c *checker) checkPod(ctx context.Context, pod attachment.PodRef, requested bool) error {
	records := slices.DeleteFunc(checkpoint.Networks(c.store.ForPod(pod.UID)), func(r checkpoint.Record) bool {
		return r.LiveIn != "" && r.Phase != checkpoint.Attached // an edit is adding it
	})
	if len(records) == 0 || c.watch.deleting(pod) {
		return nil
	}
	if i := slices.IndexFunc(records, c.uncheckable); i >= 0 {
		if requested {
			c.reportUncheckable(records[i])
		}
		return nil
	}
	results := map[checkpoint.Key]checkResult{}
	for _, r := range records {
		results[r.Key()] = c.checkOne(ctx, r)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	c.record(records, results)
	c.report(ctx, pod, records, results, requested)
	return nil
}

// uncheckable reports whether a record is not attached, or its sandbox is gone.
func (c *checker) uncheckable(r checkpoint.Record) bool {
	return r.Phase != checkpoint.Attached || !c.attacher.SandboxAlive(r)
}

// checkResult is the result of a CHECK of one attachment.
type checkResult struct {
	// err is what is not as ADD has made it, or nil.
	err error
	// unchecked are the plugins that implement no CHECK.
	unchecked []string
}

// checkOne runs CHECK for one record. It runs it twice if the first one gets no answer, which
// means nothing for the pod.
func (c *checker) checkOne(ctx context.Context, r checkpoint.Record) checkResult {
	result := c.runCheck(ctx, r)
	if result.err != nil && cniexec.Transient(result.err) && background.Sleep(ctx, checkPause) {
		result = c.runCheck(ctx, r)
	}
	return result
}

// runCheck runs CHECK once for one record. An error of a plugin gets the code AttachmentChanged.
func (c *checker) runCheck(ctx context.Context, r checkpoint.Record) checkResult {
	result := r.Result
	if slices.ContainsFunc(c.store.ForPod(r.Pod.UID), func(r checkpoint.Record) bool { return r.Attachment.DefaultRoute != nil }) {
		result = attach.WithoutDefaultRoutes(result)
	}
	unchecked, err := c.operations.Check(ctx, *r.Sandbox, r.Attachment, result)
	if err == nil {
		err = c.attacher.CheckDefaultRoute(r)
	}
	return checkResult{reason.Wrap(reason.AttachmentChanged, err), unchecked}
}

package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
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
// Between these it looks by itself whether the interfaces and addresses are there that ADD has made.
//
// It reports what has changed and does nothing else. The pod may still work, wholly or over
// its other networks: whether the pod is deleted is its owner's decision. Some plugins' CHECKs fail on
// healthy attachments, so that of a network counts only after one of the network has passed for a pod with the same
// networks.
type checker struct {
	*pods
	// began is true once the pods of an earlier driver are being checked.
	began atomic.Bool

	mu sync.Mutex
	// requested has the pods whose owners wait for a CHECK that has not begun.
	requested map[string]bool
	// failed has the latest CHECK of each attachment that has failed.
	failed map[checkpoint.Key]failedCheck
	looks  map[checkpoint.Key]look
	// passed has the networks of which a CHECK has passed, and doubted the pods whose CHECK of a network without
	// has failed.
	passed  map[networkOfPods]bool
	doubted map[networkOfPods][]attachment.PodRef
}

// newChecker returns a checker that has checked nothing.
func newChecker(p *pods) *checker {
	return &checker{
		pods: p, requested: map[string]bool{}, looks: map[checkpoint.Key]look{},
		passed: map[networkOfPods]bool{}, doubted: map[networkOfPods][]attachment.PodRef{},
	}
}

// networkOfPods is a network of pods that have the same networks in the same order. A plugin's CHECK may fail on a
// healthy pod because of what another network of the pod has added: that of route-override, for example, wants no route
// to an address, and takes any default route for one.
type networkOfPods struct {
	network  attachment.NetworkRef
	networks string
}

// networksOf describes the networks of a pod with these records, for networkOfPods.
func networksOf(records []checkpoint.Record) string {
	var out strings.Builder
	for _, r := range checkpoint.Networks(records) {
		fmt.Fprintln(&out, r.Attachment.Network, r.Attachment.DefaultRoute != nil)
	}
	return out.String()
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

// latest returns what a record has lost in the sandbox that it is attached in, or the error of its latest CHECK
// there.
func (c *checker) latest(r checkpoint.Record) error {
	if err := c.lost(r); err != nil {
		return err
	}
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
		if attaching != nil && !background.Await(ctx, attaching.done) {
			return
		}
		c.check(ctx, s.Pod)
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

// checkOnDemand checks a pod if it has networks of nadra's. Requests before its CHECK begins are one: every request of a
// tenant would run all plugins of the pod.
func (c *checker) checkOnDemand(pod attachment.PodRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.store.ForPod(pod.UID)) == 0 || c.requested[pod.UID] {
		return
	}
	c.requested[pod.UID] = true
	c.background.Go(func(ctx context.Context) {
		begin := sync.OnceFunc(func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.requested, pod.UID)
		})
		defer begin()
		c.do(ctx, pod, func(ctx context.Context) error { begin(); return c.checkPod(ctx, pod, true) })
	})
}

// check checks a pod of which nobody has requested that.
func (c *checker) check(ctx context.Context, pod attachment.PodRef) {
	c.do(ctx, pod, func(ctx context.Context) error { return c.checkPod(ctx, pod, false) })
}

// do looks at a pod while no other operation on it runs, and again if it had to yield to one. A stop of the
// driver does not wait for it, because it changes nothing.
func (c *checker) do(ctx context.Context, pod attachment.PodRef, look func(context.Context) error) {
	ctx = operations.WithPod(ctx, pod)
	op := operations.Operation{Pod: pod, Manner: operations.Yielding, Limit: checkTime, Over: reason.Errorf(reason.AttachmentChanged, "no CHECK within %s", checkTime)}
	for {
		err := c.operations.Do(ctx, op, look)
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
	records := c.recordsOf(pod)
	if len(records) == 0 || c.watch.deleting(pod) {
		return nil
	}
	if i := slices.IndexFunc(records, c.uncheckable); i >= 0 {
		if requested {
			c.reportUncheckable(records[i])
		}
		return nil
	}
	c.lookAt(pod, records)
	results := map[checkpoint.Key]checkResult{}
	for _, r := range records {
		c.takeNews(r) // the report below has them
		results[r.Key()] = c.checkOne(ctx, r)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	c.record(records, results)
	c.reportAll(ctx, pod, records, results, requested)
	return nil
}

// recordsOf returns the records of the networks that a pod is to have, without those that an edit is adding, which may fail
// for as long as the pod runs.
func (c *checker) recordsOf(pod attachment.PodRef) []checkpoint.Record {
	return checkpoint.Where(checkpoint.Networks(c.store.ForPod(pod.UID)), func(r checkpoint.Record) bool {
		return r.LiveIn == "" || r.Phase == checkpoint.Attached
	})
}

// uncheckable reports whether a record is not attached, or its sandbox is gone.
func (c *checker) uncheckable(r checkpoint.Record) bool {
	return r.Phase != checkpoint.Attached || !c.attacher.SandboxAlive(r)
}

// checkResult is the result of a CHECK of one attachment.
type checkResult struct {
	// err is what is not as ADD has made it, or nil. lost is true if it is not there any more, and otherwise
	// a CHECK says so.
	err  error
	lost bool
	// doubt is the error of a CHECK that proves nothing, because of why.
	doubt error
	why   string
	// silent is true if there is nothing to tell.
	silent bool
	// unchecked are the plugins that implement no CHECK.
	unchecked []string
}

// checkOne runs CHECK for one record that has lost nothing. It runs it twice if the first one gets no answer, which
// means nothing for the pod.
func (c *checker) checkOne(ctx context.Context, r checkpoint.Record) checkResult {
	if err := c.lost(r); err != nil {
		return checkResult{err: err, lost: true}
	}
	result := c.runCheck(ctx, r)
	if result.err != nil && cniexec.Transient(result.err) && background.Sleep(ctx, checkPause) {
		result = c.runCheck(ctx, r)
	}
	return c.weigh(r, result)
}

// weigh doubts a failure unless a CHECK of the same network has passed since the driver was started, for a pod with the
// same networks, or the plugin is right that something is missing, and while the pod has renamed an interface. Once one
// passes, it checks again those that it has doubted.
func (c *checker) weigh(r checkpoint.Record, result checkResult) checkResult {
	network := networkOfPods{r.Attachment.Network, networksOf(c.store.ForPod(r.Pod.UID))}
	c.mu.Lock()
	defer c.mu.Unlock()
	l, looked := c.looks[r.Key()]
	switch {
	case result.err != nil && looked && len(l.never) > 0:
		l.lost, l.reported, l.never = l.never, l.never, nil
		c.looks[r.Key()] = l
		return checkResult{err: l.err(), lost: true}
	case result.err == nil:
		c.passed[network] = true
		for _, pod := range c.doubted[network] {
			c.background.Go(func(ctx context.Context) { c.check(ctx, pod) })
		}
		delete(c.doubted, network)
	case l.renamed:
		result.err, result.doubt, result.why = nil, result.err, "the pod has renamed an interface that its plugins look for"
	case !c.passed[network]:
		if !slices.Contains(c.doubted[network], r.Pod) {
			c.doubted[network] = append(c.doubted[network], r.Pod)
		}
		result.err, result.doubt, result.why = nil, result.err, "has not passed for any pod with the same networks since the driver was started"
	}
	return result
}

// runCheck runs CHECK once for one record. An error of a plugin gets the code AttachmentChanged.
func (c *checker) runCheck(ctx context.Context, r checkpoint.Record) checkResult {
	result := attach.WithoutHostAddresses(r.Result)
	if slices.ContainsFunc(c.store.ForPod(r.Pod.UID), func(r checkpoint.Record) bool { return r.Attachment.DefaultRoute != nil }) {
		result = attach.WithoutDefaultRoutes(result)
	}
	unchecked, err := c.operations.Check(ctx, *r.Sandbox, r.Attachment, result)
	if err == nil {
		err = c.attacher.CheckDefaultRoute(r)
	}
	return checkResult{err: reason.Wrap(reason.AttachmentChanged, err), unchecked: unchecked}
}

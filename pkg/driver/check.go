package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podlog"
)

const (
	// checkAnnotation on a pod asks for a CHECK of its attachments, once for
	// each new value.
	checkAnnotation = "nadra.dev/check"
	// checkLimit bounds one CHECK; a plugin that hangs is killed.
	checkLimit = 10 * time.Second
	// checksAtOnce is how many pods are checked at a time: at the start, and
	// as many on demand.
	checksAtOnce = 4
	// checkPause is what a check waits that had to give way, or got no answer.
	checkPause = time.Second
)

// checker asks plugins whether attachments are still as ADD has made them (CNI
// specification, § "CHECK"): of every attached pod when the driver has been
// started, and of a pod whose owner asks.
//
// A CHECK that fails is told and nothing else. The pod may still do its work,
// wholly or over its other networks, and plugins' CHECKs are known to be wrong
// at times: whether the pod is to be deleted is its owner's decision.
type checker struct {
	plugins interface {
		Check(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, result json.RawMessage) (unchecked []string, err error)
		HasCheck(a attachment.Attachment) bool
	}
	atStart, onDemand slots
	// began is set when the pods that this driver has found were given to be
	// checked.
	began atomic.Bool

	mu sync.Mutex
	// failed has what the latest CHECK of an attachment has found, where that is
	// an error.
	failed map[checkpoint.Key]failedCheck
}

// failedCheck is a CHECK that has failed in a sandbox.
type failedCheck struct {
	sandbox string
	err     error
}

// note keeps what a CHECK of these records has found, and forgets records that
// are not there any more.
func (c *checker) note(checked []checkpoint.Record, found map[checkpoint.Key]checkResult, all []checkpoint.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.failed
	c.failed = map[checkpoint.Key]failedCheck{}
	for _, r := range all {
		if f, found := before[r.Key()]; found {
			c.failed[r.Key()] = f
		}
	}
	for _, r := range checked {
		delete(c.failed, r.Key())
		if err := found[r.Key()].err; err != nil {
			c.failed[r.Key()] = failedCheck{r.Sandbox.ID, err}
		}
	}
}

// found is what the latest CHECK of a record has found, in the sandbox that it
// is attached in.
func (c *checker) found(r checkpoint.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, failed := c.failed[r.Key()]; failed && checkpoint.InSandbox(f.sandbox)(r) {
		return f.err
	}
	return nil
}

func newChecker() *checker {
	return &checker{atStart: make(slots, checksAtOnce), onDemand: make(slots, checksAtOnce)}
}

// checkAtStart checks a pod that an earlier driver has attached, when the rest
// of it, if any, is attached.
func (d *Driver) checkAtStart(s attachment.Sandbox, attaching *job) {
	d.quiet.start(func(ctx context.Context) {
		if attaching != nil {
			select {
			case <-attaching.done:
			case <-ctx.Done():
				return
			}
		}
		d.check(ctx, s.Pod, d.checks.atStart, false)
	})
}

// watchChecks has pods checked whose owners ask for it. A value that is there
// when the driver starts, or when a pod is created, asks for nothing.
func (d *Driver) watchChecks() error {
	_, err := d.watch.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, now any) {
		if was, is := metaOf(before), metaOf(now); was != nil && is != nil && asksForCheck(was, is) {
			d.checkOnDemand(podRefOf(is))
		}
	}})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	return nil
}

func asksForCheck(was, is *metav1.PartialObjectMetadata) bool {
	value := is.Annotations[checkAnnotation]
	return was.UID == is.UID && value != "" && value != was.Annotations[checkAnnotation]
}

// checkOnDemand checks a pod that has networks of ours.
func (d *Driver) checkOnDemand(pod attachment.PodRef) {
	if len(d.store.ForPod(pod.UID)) > 0 {
		d.quiet.start(func(ctx context.Context) { d.check(ctx, pod, d.checks.onDemand, true) })
	}
}

// check checks a pod when it is its turn, and again when it had to give way to
// another operation on the pod.
func (d *Driver) check(ctx context.Context, pod attachment.PodRef, turns slots, asked bool) {
	ctx = podlog.WithPod(ctx, pod)
	if !turns.take(ctx) {
		return
	}
	defer turns.give()
	for {
		err := d.checkPod(ctx, pod, asked)
		switch {
		case err == nil, ctx.Err() != nil:
			return
		case !errors.Is(err, errGoesFirst):
			klog.FromContext(ctx).Error(err, "Checking a pod's networks ended early")
			return
		case !sleep(ctx, checkPause):
			return
		}
	}
}

// checkPod runs CHECK for all attachments of a pod while no other operation on
// it runs, and tells what came of it. An error says that it was interrupted.
func (d *Driver) checkPod(ctx context.Context, pod attachment.PodRef, asked bool) error {
	ctx, unlock, err := d.pods.lockGivingWay(ctx, pod.UID)
	if err != nil {
		return err
	}
	defer unlock()
	records := checkpoint.Networks(d.store.ForPod(pod.UID))
	if len(records) == 0 || d.watch.going(pod) {
		return nil
	}
	if i := slices.IndexFunc(records, d.uncheckable); i >= 0 {
		if asked {
			d.reportUncheckable(records[i])
		}
		return nil
	}
	found := map[checkpoint.Key]checkResult{}
	for _, r := range records {
		found[r.Key()] = d.checkOne(ctx, r)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	d.reportCheck(ctx, pod, records, found, asked)
	return nil
}

// uncheckable reports whether there is nothing to compare with a record: it is
// not attached, or its sandbox is gone.
func (d *Driver) uncheckable(r checkpoint.Record) bool {
	return r.Phase != checkpoint.Attached || !d.attacher.SandboxAlive(r)
}

// checkResult is what a CHECK of one attachment has found.
type checkResult struct {
	// err says what is not as ADD has made it.
	err error
	// unchecked are the plugins that implement no CHECK.
	unchecked []string
}

// checkOne runs CHECK for one record; twice where the first has not come to an
// answer, which says nothing about the pod.
func (d *Driver) checkOne(ctx context.Context, r checkpoint.Record) checkResult {
	found := d.runCheck(ctx, r)
	if found.err != nil && cniexec.Transient(found.err) && sleep(ctx, checkPause) {
		found = d.runCheck(ctx, r)
	}
	return found
}

func (d *Driver) runCheck(ctx context.Context, r checkpoint.Record) checkResult {
	ctx, cancel := context.WithTimeoutCause(ctx, checkLimit, reason.Errorf(reason.AttachmentChanged, "one CHECK may take %s", checkLimit))
	defer cancel()
	result := r.Result
	if slices.ContainsFunc(d.store.ForPod(r.Pod.UID), func(r checkpoint.Record) bool { return r.Attachment.DefaultRoute != nil }) {
		result = attach.WithoutDefaultRoutes(result)
	}
	unchecked, err := d.checks.plugins.Check(ctx, *r.Sandbox, r.Attachment, result)
	if err == nil {
		err = d.attacher.CheckDefaultRoute(r)
	}
	return checkResult{err, unchecked}
}

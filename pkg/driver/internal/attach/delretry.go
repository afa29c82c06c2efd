package attach

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
)

const (
	// shortestRetry and longestRetry limit the pause before the next try of a pending DEL.
	shortestRetry = 30 * time.Second
	longestRetry  = 10 * time.Minute
	// shortPause is the shortest pause before a try because hardware has changed, or a claim waits.
	// A DEL that changes hardware and fails would otherwise trigger the next one.
	shortPause = 5 * time.Second
)

// DelRetrier retries pending DELs until they succeed, a few of the same plugins at a time.
type DelRetrier struct {
	attacher *Attacher
	queue    workqueue.TypedRateLimitingInterface[string] // of delKey

	mu    sync.Mutex
	tried map[string]time.Time // the latest try of each
}

// newDelRetrier returns a DelRetrier for the pending DELs in the attacher's store.
func newDelRetrier(a *Attacher) *DelRetrier {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](shortestRetry, longestRetry)
	return &DelRetrier{attacher: a, queue: workqueue.NewTypedRateLimitingQueue(limiter), tried: map[string]time.Time{}}
}

// delKey returns the key of a pending DEL in the queue. A record in its sandbox may have several, of different
// configurations.
func delKey(r checkpoint.Record) string { return r.DELKey() + " " + string(r.Attachment.Conflist) }

// add schedules a record's DEL that has just been deferred.
func (d *DelRetrier) add(r checkpoint.Record) { d.queue.AddRateLimited(delKey(r)) }

// Begin schedules a pending DEL that has not been tried.
func (d *DelRetrier) Begin(r checkpoint.Record) { d.queue.Add(delKey(r)) }

// Hasten schedules the pending DELs that match: what they wait for may have come, or a claim waits for
// them.
func (d *DelRetrier) Hasten(match func(checkpoint.Record) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, del := range d.attacher.Store.PendingDELs() {
		if match(del.Record) {
			key := delKey(del.Record)
			d.queue.AddAfter(key, time.Until(d.tried[key].Add(shortPause)))
		}
	}
}

// Run retries until ctx ends, beginning with the pending DELs of earlier drivers. Each DEL waits for
// its pod and its plugins only.
func (d *DelRetrier) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, d.ShutDown)
	defer stop()
	for _, del := range d.attacher.Store.PendingDELs() {
		d.queue.Add(delKey(del.Record))
	}
	var tries sync.WaitGroup
	defer tries.Wait()
	for {
		key, shutdown := d.queue.Get()
		if shutdown {
			return nil
		}
		tries.Go(func() {
			defer d.queue.Done(key)
			d.retry(ctx, key)
		})
	}
}

// ShutDown ends the queue. DELs that are deferred later are not retried.
func (d *DelRetrier) ShutDown() { d.queue.ShutDown() }

// retry runs one pending DEL, if there is one, as an operation that yields to all others on the pod.
func (d *DelRetrier) retry(ctx context.Context, key string) {
	del, found := d.find(key)
	if !found {
		d.forget(key)
		return
	}
	limit := d.attacher.Limits.Detaching([]checkpoint.Record{del.Record})
	op := operations.Operation{
		Pod: del.Record.Pod, Sandbox: del.Record.Sandbox.ID, Manner: operations.Yielding, Detaching: true,
		Limit: limit, Over: reason.Errorf(reason.DELUnfinished, "the time for a pending DEL is over"),
	}
	err := d.attacher.Operations.Run(ctx, op, func(ctx context.Context) error { return d.run(ctx, key) })
	if err != nil && ctx.Err() == nil { // another operation on the pod, or other DELs of the plugin, went first
		d.queue.AddAfter(key, shortPause)
	}
}

// find returns a pending DEL.
func (d *DelRetrier) find(key string) (del checkpoint.PendingDEL, found bool) {
	dels := d.attacher.Store.PendingDELs()
	i := slices.IndexFunc(dels, func(del checkpoint.PendingDEL) bool { return delKey(del.Record) == key })
	if i < 0 {
		return del, false
	}
	return dels[i], true
}

// run runs one pending DEL while no other operation on its pod runs. It schedules the next try of one
// that fails, and of one that waits for the end of its sandbox. It returns an error if the DEL was not
// begun.
func (d *DelRetrier) run(ctx context.Context, key string) error {
	del, found := d.find(key)
	if !found {
		d.forget(key)
		return nil
	}
	ns := d.attacher.keep(del.Record)
	defer ns.close()
	if none := func(checkpoint.Record) bool { return false }; ns.alive && d.attacher.harm(del.Record, none) != nil {
		d.queue.AddAfter(key, shortestRetry)
		return nil
	}
	err := d.attacher.runDel(ctx, del.Record, ns)
	if errors.Is(err, operations.ErrNotBegun) {
		return err
	}
	d.mu.Lock()
	d.tried[key] = time.Now()
	d.mu.Unlock()
	logger := operations.LoggerOf(ctx, del.Record)
	if err == nil {
		logger.Info("A pending DEL has succeeded", "since", del.Since)
		err = d.attacher.Store.ResolveDEL(del)
	}
	if err != nil {
		logger.Error(err, "A pending DEL has failed; trying again", "since", del.Since)
		d.queue.AddRateLimited(key)
		return nil
	}
	d.forget(key)
	return nil
}

func (d *DelRetrier) forget(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tried, key)
	d.queue.Forget(key)
}

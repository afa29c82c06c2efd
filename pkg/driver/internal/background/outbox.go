package background

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"

	"github.com/nadra-dev/nadra/internal/metrics"
)

// Outbox holds at most one update for each object: a newer update replaces an older
// one that is not written yet. Workers write the updates, each object's one at a time.
type Outbox[K comparable, U any] struct {
	queue workqueue.TypedRateLimitingInterface[K]

	mu      sync.Mutex // guards pending
	pending map[K]*Pending[U]
}

// Pending is an update that is not written yet, or that is being written.
type Pending[U any] struct {
	Update U
	// Since is the time of the object's first update that is not written.
	Since time.Time
	// Err is the error of the latest attempt to write.
	Err error
	// Written is closed when no update of the object is pending any more.
	Written chan struct{}
}

// Write writes an object's update. It returns an error to be called again after a
// pause; tries counts its failures for the object so far.
type Write[K comparable, U any] func(ctx context.Context, key K, p Pending[U], tries int) error

// New returns an outbox that tries a failed write again after the shortest pause, and
// then after pauses that double up to the longest.
func New[K comparable, U any](shortest, longest time.Duration) *Outbox[K, U] {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[K](shortest, longest)
	return &Outbox[K, U]{
		queue:   workqueue.NewTypedRateLimitingQueue(limiter),
		pending: map[K]*Pending[U]{},
	}
}

// Put queues an object's update, which merge makes of the pending one. found is false
// if none is pending.
func (o *Outbox[K, U]) Put(key K, merge func(old U, found bool) U) {
	o.Hold(key, merge)
	o.Release(key)
}

// Hold keeps an object's update as Put does, and leaves it to Release to queue it.
func (o *Outbox[K, U]) Hold(key K, merge func(old U, found bool) U) {
	o.mu.Lock()
	before, found := o.pending[key]
	next := &Pending[U]{Since: time.Now(), Written: make(chan struct{})}
	if found {
		next.Since, next.Written, next.Err = before.Since, before.Written, before.Err
		next.Update = merge(before.Update, true)
	} else {
		next.Update = merge(next.Update, false)
	}
	o.pending[key] = next
	o.mu.Unlock()
}

// Release queues the pending update of an object, if there is one.
func (o *Outbox[K, U]) Release(key K) { o.queue.Add(key) }

// Forget drops the pending update of an object.
func (o *Outbox[K, U]) Forget(key K) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(key)
}

// drop drops the pending update of an object. The caller holds mu.
func (o *Outbox[K, U]) drop(key K) {
	if p, found := o.pending[key]; found {
		close(p.Written)
		delete(o.pending, key)
	}
}

// Get returns the pending update of an object.
func (o *Outbox[K, U]) Get(key K) (p Pending[U], found bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if pending, found := o.pending[key]; found {
		return *pending, true
	}
	return p, false
}

// Queue counts the objects with pending updates.
func (o *Outbox[K, U]) Queue(now time.Time) metrics.Queue {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := metrics.Queue{Length: len(o.pending)}
	for _, p := range o.pending {
		q.Oldest = max(q.Oldest, now.Sub(p.Since))
	}
	return q
}

// drainTime limits the writes that are queued when the driver stops.
const drainTime = 5 * time.Second

// Run writes with a number of workers until ctx ends. Then it writes what is still queued,
// for a short time.
func (o *Outbox[K, U]) Run(ctx context.Context, workers int, write Write[K, U]) {
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		o.queue.ShutDown()
		time.AfterFunc(drainTime, cancel)
	})
	defer stop()
	var group errgroup.Group
	for range workers {
		group.Go(func() error {
			for o.writeNext(writing, write) {
			}
			return nil
		})
	}
	_ = group.Wait() // no worker returns an error
}

// ShutDown ends the queue. Updates that are put later are not written.
func (o *Outbox[K, U]) ShutDown() { o.queue.ShutDown() }

// writeNext writes one update. It reports false when the queue has ended.
func (o *Outbox[K, U]) writeNext(ctx context.Context, write Write[K, U]) bool {
	key, shutdown := o.queue.Get()
	if shutdown {
		return false
	}
	defer o.queue.Done(key)
	o.mu.Lock()
	current := o.pending[key]
	var p Pending[U]
	if current != nil {
		p = *current
	}
	o.mu.Unlock()
	if current == nil { // forgotten
		o.queue.Forget(key)
		return true
	}
	if err := write(ctx, key, p, o.queue.NumRequeues(key)); err != nil {
		o.fail(key, err)
		o.queue.AddRateLimited(key)
		return true
	}
	o.queue.Forget(key)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pending[key] == current { // otherwise a newer update is queued
		o.drop(key)
	}
	return true
}

// fail records why an object's update could not be written.
func (o *Outbox[K, U]) fail(key K, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p, found := o.pending[key]; found {
		p.Err = err
	}
}

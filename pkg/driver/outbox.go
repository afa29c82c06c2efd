package driver

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"

	"github.com/nadra-dev/nadra/internal/metrics"
)

// outbox holds what the API server is to be told, one update for each object: a
// newer one replaces an older one that is not written yet. Workers write the
// updates, each object's one at a time.
type outbox[K comparable, U any] struct {
	queue workqueue.TypedRateLimitingInterface[K]

	mu      sync.Mutex // guards pending
	pending map[K]*pendingUpdate[U]
}

// pendingUpdate is an update that is not written yet, or is being written.
type pendingUpdate[U any] struct {
	update U
	// since is when the object's first update came that has not been written.
	since time.Time
	// err is what the latest attempt to write failed with.
	err error
	// written is closed when no update of the object is pending any more.
	written chan struct{}
}

// newOutbox returns an outbox that tries a failed write again after min, and
// after pauses that double up to max.
func newOutbox[K comparable, U any](min, max time.Duration) *outbox[K, U] {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[K](min, max)
	return &outbox[K, U]{
		queue:   workqueue.NewTypedRateLimitingQueue(limiter),
		pending: map[K]*pendingUpdate[U]{},
	}
}

// put has an object's update written. merge returns it from the one that is
// pending; found is false where there is none.
func (o *outbox[K, U]) put(key K, merge func(old U, found bool) U) {
	o.mu.Lock()
	before, found := o.pending[key]
	next := &pendingUpdate[U]{since: time.Now(), written: make(chan struct{})}
	if found {
		next.since, next.written, next.err = before.since, before.written, before.err
		next.update = merge(before.update, true)
	} else {
		next.update = merge(next.update, false)
	}
	o.pending[key] = next
	o.mu.Unlock()
	o.queue.Add(key)
}

// forget drops what is pending for an object.
func (o *outbox[K, U]) forget(key K) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(key)
}

// drop is forget for callers that hold mu.
func (o *outbox[K, U]) drop(key K) {
	if p, found := o.pending[key]; found {
		close(p.written)
		delete(o.pending, key)
	}
}

// look returns what is pending for an object.
func (o *outbox[K, U]) look(key K) (p pendingUpdate[U], found bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if pending, found := o.pending[key]; found {
		return *pending, true
	}
	return p, false
}

// measure counts the objects that wait to be written, or are being.
func (o *outbox[K, U]) measure(now time.Time) metrics.Queue {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := metrics.Queue{Length: len(o.pending)}
	for _, p := range o.pending {
		q.Oldest = max(q.Oldest, now.Sub(p.since))
	}
	return q
}

// run writes with a number of workers until ctx ends, and then for drain at
// most what is still in the queue. write returns an error where it is to be
// called again; tries counts its failures for the object so far.
func (o *outbox[K, U]) run(ctx context.Context, workers int, drain time.Duration, write func(ctx context.Context, key K, p pendingUpdate[U], tries int) error) {
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		o.queue.ShutDown()
		time.AfterFunc(drain, cancel)
	})
	defer stop()
	var group errgroup.Group
	for range workers {
		group.Go(func() error {
			for o.next(writing, write) {
			}
			return nil
		})
	}
	_ = group.Wait() // no worker returns an error
}

// next writes one update. It reports false when the queue has ended.
func (o *outbox[K, U]) next(ctx context.Context, write func(ctx context.Context, key K, p pendingUpdate[U], tries int) error) bool {
	key, shutdown := o.queue.Get()
	if shutdown {
		return false
	}
	defer o.queue.Done(key)
	o.mu.Lock()
	current := o.pending[key]
	var p pendingUpdate[U]
	if current != nil {
		p = *current
	}
	o.mu.Unlock()
	if current == nil { // forgotten
		o.queue.Forget(key)
		return true
	}
	err := write(ctx, key, p, o.queue.NumRequeues(key))
	if err != nil {
		o.failed(key, err)
		o.queue.AddRateLimited(key)
		return true
	}
	o.queue.Forget(key)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pending[key] == current { // else a newer one has been put, and is queued
		o.drop(key)
	}
	return true
}

func (o *outbox[K, U]) failed(key K, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p, found := o.pending[key]; found {
		p.err = err
	}
}

package attach

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podlog"
)

const (
	// shortestRetry and longestRetry limit the pause before the next try of a pending DEL.
	shortestRetry = 30 * time.Second
	longestRetry  = 10 * time.Minute
	// hardwareRetry is the shortest pause before a try because hardware has changed. A DEL
	// that changes hardware and fails would otherwise trigger the next one.
	hardwareRetry = 5 * time.Second
)

// DelRetrier retries pending DELs until they succeed.
type DelRetrier struct {
	attacher *Attacher
	queue    workqueue.TypedRateLimitingInterface[string] // of checkpoint.Record.DELKey

	mu    sync.Mutex
	tried map[string]time.Time // the latest try of each
}

// newDelRetrier returns a DelRetrier for the pending DELs in the attacher's store.
func newDelRetrier(a *Attacher) *DelRetrier {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](shortestRetry, longestRetry)
	return &DelRetrier{attacher: a, queue: workqueue.NewTypedRateLimitingQueue(limiter), tried: map[string]time.Time{}}
}

// add schedules a record's DEL that has just been deferred.
func (d *DelRetrier) add(r checkpoint.Record) { d.queue.AddRateLimited(r.DELKey()) }

// Begin schedules a pending DEL that has not been tried.
func (d *DelRetrier) Begin(r checkpoint.Record) { d.queue.Add(r.DELKey()) }

// HardwareChanged schedules the pending DELs of devices: a DEL may have failed because the
// device was missing.
func (d *DelRetrier) HardwareChanged() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, del := range d.attacher.Store.PendingDELs() {
		if del.Record.Hardware != nil {
			key := del.Record.DELKey()
			d.queue.AddAfter(key, time.Until(d.tried[key].Add(hardwareRetry)))
		}
	}
}

// Run retries until ctx ends, beginning with the pending DELs of earlier drivers.
func (d *DelRetrier) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, d.ShutDown)
	defer stop()
	for _, del := range d.attacher.Store.PendingDELs() {
		d.queue.Add(del.Record.DELKey())
	}
	for {
		key, shutdown := d.queue.Get()
		if shutdown {
			return nil
		}
		d.retry(ctx, key)
		d.queue.Done(key)
	}
}

// ShutDown ends the queue. DELs that are deferred later are not retried.
func (d *DelRetrier) ShutDown() { d.queue.ShutDown() }

// retry runs one pending DEL. It waits while the DEL's sandbox has other networks: IPAM
// plugins may release addresses by the sandbox alone.
func (d *DelRetrier) retry(ctx context.Context, key string) {
	store := d.attacher.Store
	dels := store.PendingDELs()
	i := slices.IndexFunc(dels, func(del checkpoint.PendingDEL) bool { return del.Record.DELKey() == key })
	if i < 0 {
		d.forget(key)
		return
	}
	del := dels[i]
	inSandbox := checkpoint.InSandbox(del.Record.Sandbox.ID)
	if slices.ContainsFunc(store.All(), func(r checkpoint.Record) bool { return r.NeedsDEL() && inSandbox(r) }) {
		d.queue.AddAfter(key, shortestRetry)
		return
	}
	d.mu.Lock()
	d.tried[key] = time.Now()
	d.mu.Unlock()
	ctx = podlog.WithPod(ctx, del.Record.Pod)
	logger := podlog.ForRecord(ctx, del.Record)
	ns := d.attacher.keep(del.Record)
	defer ns.close()
	err := d.attacher.runDel(ctx, del.Record, ns)
	if err == nil {
		logger.Info("A pending DEL has succeeded", "since", del.Since)
		err = store.ResolveDEL(del)
	}
	if err != nil {
		logger.Error(err, "A pending DEL has failed; trying again", "since", del.Since)
		d.queue.AddRateLimited(key)
		return
	}
	d.forget(key)
}

func (d *DelRetrier) forget(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tried, key)
	d.queue.Forget(key)
}

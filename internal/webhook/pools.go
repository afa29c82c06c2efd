package webhook

import (
	"context"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nadra-dev/nadra/pkg/admission"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

const (
	// poolsFor is how long the list of published pools is used for a pool in it, and
	// poolsAbsentFor for a pool that is not in it.
	poolsFor       = 10 * time.Minute
	poolsAbsentFor = 10 * time.Second
	// poolsWait is how long a pod waits for the list of slices. In a cluster with many slices it
	// takes longer; until then every pool counts as nadra's.
	poolsWait = 3 * time.Second
	// poolsLimit is the timeout of one list.
	poolsLimit = 2 * time.Minute
	// slicesPage is the page size of the list.
	slicesPage = 100
)

// poolIndex has the drivers that publish devices of resource pools. It lists the ResourceSlices when
// the first pod draws from a pool, in pages, and keeps only the names of pools and drivers. One list
// serves all pods.
type poolIndex struct {
	live client.Reader
	now  func() time.Time

	mu        sync.Mutex
	published map[string][]string // drivers by pool
	readAt    time.Time
	failedAt  time.Time     // of the latest list, if it failed
	reading   chan struct{} // closed when the running list ends; nil if none runs
}

func newPoolIndex(live client.Reader) *poolIndex { return &poolIndex{live: live, now: time.Now} }

// facts returns what serves a pool. It waits for the list of slices at most for the given time.
func (p *poolIndex) facts(ctx context.Context, pool string, wait time.Duration) admission.PoolFacts {
	published, known := p.fresh(pool)
	if !known && !p.failed() {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-p.read(ctx):
		case <-timer.C:
		case <-ctx.Done():
		}
		published, known = p.fresh(pool)
	}
	if !known {
		return admission.PoolOfNadra()
	}
	return admission.PoolPublishedBy(pool, published)
}

// failed reports whether the latest list failed a short time ago.
func (p *poolIndex) failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.failedAt.IsZero() && p.now().Sub(p.failedAt) < poolsAbsentFor
}

// fresh returns the published pools, and whether they are recent enough for a pool.
func (p *poolIndex) fresh(pool string) (published map[string][]string, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := poolsAbsentFor
	if len(p.published[pool]) > 0 {
		limit = poolsFor
	}
	return p.published, p.published != nil && p.now().Sub(p.readAt) < limit
}

// read starts a list, or joins the running one. The channel is closed when it ends.
func (p *poolIndex) read(ctx context.Context) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reading != nil {
		return p.reading
	}
	done := make(chan struct{})
	p.reading = done
	go func() {
		defer close(done)
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), poolsLimit)
		defer cancel()
		published, err := p.list(limited)
		if err != nil {
			logf.FromContext(ctx).Error(err, "Listing ResourceSlices failed; converting pods as if nadra served all resource pools")
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reading = nil
		if err != nil {
			p.failedAt = p.now()
			return
		}
		p.published, p.readAt, p.failedAt = published, p.now(), time.Time{}
	}()
	return done
}

// list returns the drivers by the pools of which they publish devices.
func (p *poolIndex) list(ctx context.Context) (map[string][]string, error) {
	out := map[string][]string{}
	next := ""
	for {
		var page resourceapi.ResourceSliceList
		if err := p.live.List(ctx, &page, client.Limit(slicesPage), client.Continue(next)); err != nil {
			return nil, reason.Errorf(reason.ObjectNotRead, "listing ResourceSlices: %w", err)
		}
		for i := range page.Items {
			attachment.AddPools(out, &page.Items[i])
		}
		if next = page.Continue; next == "" {
			return out, nil
		}
	}
}

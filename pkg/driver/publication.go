package driver

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/metrics"
)

const (
	// verifyMin and verifyMax bound the pause before the API server is asked
	// again whether it has the slices.
	verifyMin = 5 * time.Second
	verifyMax = 2 * time.Minute
	// partWrites is what the library writes, in the background.
	partWrites = "writes"
)

var (
	errNotPublished = errors.New("nothing was published yet")
	errOtherSlices  = errors.New("the API server has other slices")
)

// publication knows whether the API server has what this node offers. The
// library writes slices in the background: it tells of every write that fails
// and of none that succeeds. So a failure is a doubt, and while there is one the
// API server is asked what it has; when all goes well it is never asked. The
// zero value is that of a driver that has published nothing.
type publication struct {
	metrics *metrics.Node

	mu sync.Mutex
	// began says that the networks were published once, of whatever number.
	began bool
	// troubles are what is wrong, by part.
	troubles map[string]trouble
	// wanted are the pools as they were handed to the library last.
	wanted map[string]poolSum
	// doubted wakes run; of capacity 1, and nil before the first doubt.
	doubted chan struct{}
}

// trouble is why a part is not published, and since when.
type trouble struct {
	since time.Time
	why   error
}

// poolSum tells pools apart by the names of their devices, without keeping them.
type poolSum struct {
	devices int
	names   uint64
}

func (s *poolSum) add(devices []resourceapi.Device) {
	s.devices += len(devices)
	for _, d := range devices {
		h := fnv.New64a()
		_, _ = h.Write([]byte(d.Name)) // never fails
		s.names += h.Sum64()           // whatever their order, and in which slice
	}
}

// of returns what is told the outcomes of a part.
func (p *publication) of(part string) func(error) {
	return func(err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.began = p.began || part == partNetworks && err == nil
		p.set(part, err)
	}
}

// set notes how a part is. The caller holds mu.
func (p *publication) set(part string, err error) {
	if err == nil {
		delete(p.troubles, part)
		return
	}
	p.metrics.PublishFailed()
	t, known := p.troubles[part]
	if !known {
		t.since = time.Now()
	}
	t.why = err
	if p.troubles == nil {
		p.troubles = map[string]trouble{}
	}
	p.troubles[part] = t
}

// noting returns send, which notes what is sent.
func (p *publication) noting(send func(context.Context, resourceslice.DriverResources) error) func(context.Context, resourceslice.DriverResources) error {
	return func(ctx context.Context, r resourceslice.DriverResources) error {
		wanted := make(map[string]poolSum, len(r.Pools))
		for name, pool := range r.Pools {
			var sum poolSum
			for _, s := range pool.Slices {
				sum.add(s.Devices)
			}
			wanted[name] = sum
		}
		p.mu.Lock()
		p.wanted = wanted
		p.mu.Unlock()
		return send(ctx, r)
	}
}

// doubt notes a write that has failed.
func (p *publication) doubt(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(partWrites, why)
	select {
	case p.doubts() <- struct{}{}:
	default:
	}
}

// doubts is the channel that wakes run. The caller holds mu.
func (p *publication) doubts() chan struct{} {
	if p.doubted == nil {
		p.doubted = make(chan struct{}, 1)
	}
	return p.doubted
}

// run settles doubts until ctx ends.
func (p *publication) run(ctx context.Context, list func(context.Context) ([]resourceapi.ResourceSlice, error)) error {
	p.mu.Lock()
	doubted := p.doubts()
	p.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-doubted:
		}
		for pause := verifyMin; sleep(ctx, pause); pause = min(2*pause, verifyMax) {
			there, err := list(ctx)
			if err == nil {
				err = p.compare(there)
			}
			if err == nil {
				klog.FromContext(ctx).Info("The API server has all slices of this node again")
				break
			}
		}
	}
}

// compare ends the doubt if the API server has what is wanted.
func (p *publication) compare(there []resourceapi.ResourceSlice) error {
	has := map[string]poolSum{}
	for _, s := range there {
		sum := has[s.Spec.Pool.Name]
		sum.add(s.Spec.Devices)
		has[s.Spec.Pool.Name] = sum
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !maps.Equal(p.wanted, has) {
		return errOtherSlices // what has raised the doubt says more, and stays
	}
	p.set(partWrites, nil)
	return nil
}

// look returns since when the API server lacks slices, and why; nil when it has
// them. begun is when the driver was started.
func (p *publication) look(begun time.Time) (since time.Time, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.began {
		since, why = begun, errNotPublished
	}
	for _, part := range []string{partWrites, partHardware, partNetworks} { // the last one explains most
		t, is := p.troubles[part]
		if !is {
			continue
		}
		if since.IsZero() || t.since.Before(since) {
			since = t.since
		}
		why = t.why
	}
	return since, why
}

// listSlices asks the API server for the slices of this node.
func (d *Driver) listSlices(ctx context.Context) ([]resourceapi.ResourceSlice, error) {
	list, err := d.clients.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
		resourceapi.ResourceSliceSelectorDriver:   d.cfg.DriverName,
		resourceapi.ResourceSliceSelectorNodeName: d.cfg.NodeName,
	}.String()})
	if err != nil {
		return nil, fmt.Errorf("listing the ResourceSlices of this node: %w", err)
	}
	return list.Items, nil
}

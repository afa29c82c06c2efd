package driver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	nadlisters "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/listers/k8s.cni.cncf.io/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/confdir"
)

const (
	// settle is how long changes are gathered before the slices are made anew: a
	// chart brings many NADs at once. settleMore is added for every hundred networks
	// that are offered, as every turn makes copies of all: 1.2 s with 10,000.
	settle     = 200 * time.Millisecond
	settleMore = 10 * time.Millisecond
	// recheck is how often what nothing announces is looked at: plugin
	// binaries that came or went.
	recheck = 15 * time.Second
	// featureConsumableCapacity is the gate behind shared devices (KEP-5075).
	featureConsumableCapacity = "DRAConsumableCapacity"
)

// publisher keeps the node's ResourceSlices in step with the NADs and with
// what this host can attach.
type publisher struct {
	nads     nadlisters.NetworkAttachmentDefinitionLister
	links    func() (map[string]link, error)
	missing  func([]string) []string
	networks *networks
	// offers drops the networks that are not for this node to offer.
	offers func(map[attachment.NetworkRef]candidate) map[attachment.NetworkRef]candidate
	health *health
	// lent are the pools of which other drivers have devices here; nil for none.
	lent    func() map[string]bool
	publish func(context.Context, poolMaker) error
	pool    string
	binDirs []string
	conf    confdir.Dir
	options deviceOptions // exclusive is guarded by mu
	changed chan struct{} // of capacity 1: something may have changed
	causes  atomic.Uint32 // what did, since the last look
	spread  spread

	// These are of the one goroutine that looks.
	definitions definitions
	offered     offers
	reasons     map[attachment.NetworkRef]string
	garbage     int // looks until free is called; 0 if there is nothing to free
	free        func()

	mu        sync.Mutex
	published []*offer

	pulse pulse
	// outcome is told what came of every look; nil for nobody.
	outcome func(error)
}

// freeAfter is how many looks after the latest publication its garbage is given
// back to the node: the library makes several copies of all devices meanwhile.
const freeAfter = 2

// poke asks for a new look, as something on this node may have changed; it
// never blocks.
func (p *publisher) poke() { p.ask(causeHere) }

// ask asks for a new look; it never blocks.
func (p *publisher) ask(why cause) {
	p.causes.Or(uint32(why))
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// run publishes, and again after every change until ctx ends. An error is one
// of the first time.
func (p *publisher) run(ctx context.Context) error {
	p.health.settle(ctx)
	if err := p.told(p.sync(ctx)); err != nil && ctx.Err() == nil {
		return err
	}
	ticker := time.NewTicker(recheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			p.tidy()
		case <-p.spread.turn():
		case <-p.changed:
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(p.settle()):
			}
		}
		if err := p.told(p.sync(ctx)); err != nil {
			klog.FromContext(ctx).Error(err, "Publishing networks failed; trying again", "in", recheck)
		}
	}
}

func (p *publisher) settle() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return settle + time.Duration(len(p.published)/100)*settleMore
}

// sync refreshes the view of the networks and publishes it if it differs.
func (p *publisher) sync(ctx context.Context) error {
	why := cause(p.causes.Swap(0))
	offers, err := p.refresh(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	first, same := p.published == nil, slices.Equal(p.published, offers)
	p.mu.Unlock()
	if !first && !same && p.spread.holds(why) {
		return nil
	}
	p.spread.end()
	if !first && same {
		return nil
	}
	pools := func() map[string]resourceslice.Pool {
		return map[string]resourceslice.Pool{p.pool: poolOf(devicesOf(offers))}
	}
	if err := p.publish(ctx, pools); err != nil {
		return fmt.Errorf("publishing %d networks in pool %s: %w", len(offers), p.pool, err)
	}
	klog.FromContext(ctx).Info("Published networks", "pool", p.pool, "networks", len(offers))
	p.garbage = freeAfter
	p.mu.Lock()
	p.published = offers
	p.mu.Unlock()
	return nil
}

// tidy has memory freed once no more is published.
func (p *publisher) tidy() {
	if p.garbage == 0 {
		return
	}
	if p.garbage--; p.garbage == 0 {
		p.free()
	}
}

// refresh has Prepare see the networks as they are now, and returns those that
// are to be offered and whose plugins are well.
func (p *publisher) refresh(ctx context.Context) ([]*offer, error) {
	candidates, links, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	options := p.options
	p.mu.Unlock()
	p.networks.set(candidates)
	return p.offered.of(p.health.judge(ctx, p.withoutPools(p.offers(candidates))), links, options), nil
}

// withoutPools drops the networks whose devices are those of a resource pool,
// unless another driver has them here.
func (p *publisher) withoutPools(candidates map[attachment.NetworkRef]candidate) map[attachment.NetworkRef]candidate {
	others := map[string]bool{}
	if p.lent != nil {
		others = p.lent()
	}
	ofPool := func(_ attachment.NetworkRef, c candidate) bool {
		return c.network.ResourceName != "" && !others[c.network.ResourceName]
	}
	for ref, c := range candidates {
		if ofPool(ref, c) { // most clusters have none, and nothing to copy
			out := maps.Clone(candidates)
			maps.DeleteFunc(out, ofPool)
			return out
		}
	}
	return candidates
}

// look reads the NADs and this host and decides which go together.
func (p *publisher) look(ctx context.Context) (map[attachment.NetworkRef]candidate, map[string]link, error) {
	links, err := p.links()
	if err != nil {
		return nil, nil, err
	}
	nads, err := p.nads.List(labels.Everything())
	if err != nil {
		return nil, nil, fmt.Errorf("listing NetworkAttachmentDefinitions: %w", err)
	}
	h := host{links: links, missing: p.missing, binDirs: p.binDirs}
	candidates := make(map[attachment.NetworkRef]candidate, len(nads))
	for _, d := range p.definitions.of(nads, p.conf.Find) {
		candidates[d.network.Ref] = h.candidate(d)
	}
	p.logReasons(ctx, candidates)
	return candidates, links, nil
}

// logReasons says once why a NAD is not offered here, and again when the
// reason changes.
func (p *publisher) logReasons(ctx context.Context, candidates map[attachment.NetworkRef]candidate) {
	reasons := map[attachment.NetworkRef]string{}
	for ref, c := range candidates {
		if c.unusable == nil {
			continue
		}
		reasons[ref] = c.unusable.Error()
		if p.reasons[ref] != reasons[ref] {
			klog.FromContext(ctx).Info("Network is not offered on this node", "network", ref, "reason", reasons[ref])
		}
	}
	p.reasons = reasons
}

// dropped is told which features the API server does without. It reports
// whether publishing differently helps, and starts that.
func (p *publisher) dropped(features []string) bool {
	if !slices.Contains(features, featureConsumableCapacity) {
		return false
	}
	p.mu.Lock()
	p.options.exclusive = true
	p.published = nil
	p.mu.Unlock()
	p.poke()
	return true
}

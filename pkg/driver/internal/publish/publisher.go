package publish

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	nadlisters "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/listers/k8s.cni.cncf.io/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
)

const (
	// debounce is the time for which changes are gathered before the slices are made
	// again: a chart brings many NADs at once. debounceMore is added for every hundred
	// published networks, because every publication copies all of them: 1.2 s with 10,000.
	debounce     = 200 * time.Millisecond
	debounceMore = 10 * time.Millisecond
	// recheck is the pause between looks at what no event announces: plugin binaries.
	recheck = 15 * time.Second
)

// Options has what a Publisher needs. All fields are required.
type Options struct {
	// Pool is the name of the DRA pool of what is the node's own.
	Pool string
	NADs nadlisters.NetworkAttachmentDefinitionLister
	// Links lists the host's interfaces by name.
	Links func() (map[string]offer.Link, error)
	// Missing returns the plugins that are not in BinDirs.
	Missing func(pluginTypes []string) []string
	BinDirs []string
	// Conf has the configurations of NADs that have none.
	Conf ConfDir
	// Owned reports whether the node's networks are nadra's.
	Owned func() bool
	// OtherPools returns the resource pools of which other drivers have devices here.
	OtherPools func() map[string]bool
	// Status asks the plugins of a conflist of a namespace whether they can attach.
	Status func(ctx context.Context, namespace string, conflist json.RawMessage) error
	// Pods returns the number of pods that the node takes.
	Pods func() int64
	// Copies is the number of copies of a device if the API server knows no shared devices.
	Copies int
	// Background runs the STATUS of plugins.
	Background *background.Group
	// HealthChanged is called with all changes of a refresh: there may be thousands.
	HealthChanged func(context.Context, []HealthChange)
	// Refreshed is called after every refresh of the View.
	Refreshed func(*View)
	// Outcome is called with the result of every attempt to publish.
	Outcome func(error)
	// Draw returns a random time below its argument.
	Draw func(time.Duration) time.Duration
	// FreeMemory returns unused memory to the node.
	FreeMemory func()
	// Node is where the node's profile is written. Without it, the node shares no slices.
	Node *NodeObject
}

// HealthChange is a network that is withdrawn because of its plugins' answer to STATUS, or because its master or a
// plugin is gone, or that is published again. Why is nil if it is published again.
type HealthChange struct {
	Network attachment.NetworkRef
	UID     types.UID
	Why     error
}

// Publisher keeps the node's ResourceSlices in step with the NADs and with what this host
// can attach.
type Publisher struct {
	Options
	// View has the networks of the latest refresh.
	View *View
	// Heartbeat beats with every turn of Run.
	Heartbeat background.Heartbeat

	changed background.Trigger
	causes  atomic.Uint32 // of the changes since the latest refresh
	status  *statusWatch
	profile *profile // nil without Node
	spread  spread

	// These are used by the publishing goroutine only.
	definitions  offer.Definitions
	arranged     *offer.Offer                     // the latest
	logged       map[attachment.NetworkRef]string // the reasons that were logged
	freeMemoryIn int                              // rechecks until FreeMemory is called; 0 for never

	mu        sync.Mutex
	options   offer.Options
	published *offer.Offer // nil before the first
}

// freeMemoryAfter is the number of rechecks after a publication until its memory is
// returned to the node: the library makes several copies of all devices meanwhile.
const freeMemoryAfter = 2

// New returns a Publisher.
func New(o Options) *Publisher {
	p := &Publisher{
		Options: o, View: &View{}, changed: background.NewTrigger(), spread: spread{draw: o.Draw},
		options: offer.Options{Copies: o.Copies},
	}
	p.status = newStatusWatch(o.Background, o.Status, p.trigger)
	if o.Node != nil {
		p.profile = newProfile(*o.Node, o.Background, p.Trigger, p.NADsChanged, func() time.Duration { return o.Draw(max(p.spread.over(), 1)) })
	}
	return p
}

// Trigger requests a refresh because something on this node may have changed. It never
// blocks.
func (p *Publisher) Trigger() { p.trigger(causeHere) }

// NADsChanged requests a refresh because NADs have changed. It never blocks.
func (p *Publisher) NADsChanged() { p.trigger(causeNADs) }

func (p *Publisher) trigger(why cause) {
	p.causes.Or(uint32(why))
	p.changed.Set()
}

// Run publishes, and publishes again after every change, until ctx ends. It returns an
// error if the first publication fails.
func (p *Publisher) Run(ctx context.Context, publish func(context.Context, slicewriter.PoolMaker) error) error {
	p.status.awaitAnswers(ctx)
	if p.profile != nil {
		p.Background.Go(p.profile.run)
	}
	if err := p.turn(ctx, publish); err != nil && ctx.Err() == nil {
		return err
	}
	ticker := time.NewTicker(recheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			p.countDownToFree()
		case <-p.spread.moment():
		case <-p.changed.C():
			if !background.Sleep(ctx, p.debounce()) {
				return nil
			}
		}
		if err := p.turn(ctx, publish); err != nil {
			klog.FromContext(ctx).Error(err, "Publishing networks failed; trying again", "retryAfter", recheck)
		}
	}
}

// turn publishes once and reports the outcome.
func (p *Publisher) turn(ctx context.Context, publish func(context.Context, slicewriter.PoolMaker) error) error {
	err := p.sync(ctx, publish)
	p.Heartbeat.Beat()
	p.Outcome(err)
	return err
}

func (p *Publisher) debounce() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	networks := 0
	if p.published != nil {
		networks = len(p.published.Networks)
	}
	return debounce + time.Duration(networks/100)*debounceMore
}

// sync refreshes the view of the networks and publishes them if they differ from what is
// published.
func (p *Publisher) sync(ctx context.Context, publish func(context.Context, slicewriter.PoolMaker) error) error {
	why := cause(p.causes.Swap(0))
	wanted, err := p.refresh(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	first, same := p.published == nil, p.published.Same(wanted)
	p.mu.Unlock()
	if !first && !same && p.spread.delays(why) {
		return nil
	}
	p.spread.end()
	if !first && same {
		return nil
	}
	pools := func() map[string]resourceslice.Pool {
		return map[string]resourceslice.Pool{p.Pool: poolOf(wanted)}
	}
	if err := publish(ctx, pools); err != nil {
		return fmt.Errorf("publishing %d networks in pool %s: %w", len(wanted.Networks), p.Pool, err)
	}
	klog.FromContext(ctx).Info("Published networks", "pool", p.Pool, "networks", len(wanted.Networks))
	p.freeMemoryIn = freeMemoryAfter
	p.mu.Lock()
	p.published = wanted
	p.mu.Unlock()
	return nil
}

// countDownToFree returns memory to the node once nothing is published any more.
func (p *Publisher) countDownToFree() {
	if p.freeMemoryIn == 0 {
		return
	}
	if p.freeMemoryIn--; p.freeMemoryIn == 0 {
		p.FreeMemory()
	}
}

// Refresh updates the View before Run begins.
func (p *Publisher) Refresh(ctx context.Context) error {
	_, err := p.refresh(ctx)
	return err
}

// refresh reads the NADs and this host, decides which networks are published, updates the
// View, and returns what is to be published.
func (p *Publisher) refresh(ctx context.Context) (*offer.Offer, error) {
	links, err := p.Links()
	if err != nil {
		return nil, err
	}
	nads, err := p.NADs.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing NetworkAttachmentDefinitions: %w", err)
	}
	h, owned, pods := p.host(links), p.Owned(), p.Pods()
	candidates := make([]candidate, 0, len(nads))
	for _, d := range p.definitions.Of(nads, p.Conf.Find) {
		before, found := p.View.find(d.Network.Ref)
		candidates = append(candidates, candidate{
			Definition: d, unusable: h.Check(d), pooled: h.CheckPool(d), owned: owned,
			published: found && before.withheld == nil, before: before,
		})
	}
	p.status.follow(candidates)
	networks := make(map[attachment.NetworkRef]viewed, len(candidates))
	var published []*offer.Definition
	var changes []HealthChange
	health := make(map[*offer.Definition]offer.Health, len(candidates))
	for _, c := range candidates {
		c.status = p.status.of(c.Network)
		health[c.Definition] = c.health()
		n := viewed{Definition: c.Definition, unusable: c.unusable, withheld: decide(c), devices: c.Bases(links, pods)}
		if n.follow(c) {
			changes = append(changes, HealthChange{c.Network.Ref, c.UID, n.withheld})
		}
		networks[c.Network.Ref] = n
		if n.withheld == nil {
			published = append(published, c.Definition)
		}
	}
	p.logReasons(ctx, networks)
	if len(changes) > 0 {
		p.HealthChanged(ctx, changes)
	}
	p.View.set(networks)
	p.Refreshed(p.View)
	p.mu.Lock()
	options := p.options
	p.mu.Unlock()
	options.Announce = options.Announce && owned
	if p.profile != nil {
		all := slices.Collect(maps.Keys(health))
		facts, asked := offer.FactsOf(all, h, func(d *offer.Definition) offer.Health { return health[d] }, pods)
		held := &facts
		if !owned || options.Exclusive {
			held = nil
		}
		published = p.profile.own(ctx, held, asked, all, published)
	}
	p.arranged = p.arranged.Of(offer.Arrangement{Networks: published, Links: links, Pods: pods}, options)
	return p.arranged, nil
}

// host returns this node. Thousands of networks share a few chains, so it looks for programs once for each chain.
func (p *Publisher) host(links map[string]offer.Link) offer.Host {
	absent := map[string][]string{}
	others := p.OtherPools()
	return offer.Host{
		HasLink: func(name string) bool { _, ok := links[name]; return ok },
		HasPool: func(pool string) bool { return others[pool] },
		BinDirs: p.BinDirs,
		Missing: func(d *offer.Definition) []string {
			missing, known := absent[d.Programs]
			if !known {
				missing = p.Missing(d.Plugins)
				absent[d.Programs] = missing
			}
			return missing
		},
	}
}

// poolOf returns the pool of what the node offers itself.
func poolOf(o *offer.Offer) resourceslice.Pool {
	var pool resourceslice.Pool
	for _, devices := range o.Slices() {
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: devices})
	}
	return pool
}

// follow takes over what the View before knows of the network's health, and reports whether it changes: if the plugins
// become unhealthy, if the master or a plugin of the definition that was published goes away, and when that is over.
// Nodes without a network's master are usual, so a definition that was never published here does not count. While the
// network is withheld for another reason, its health is not known.
func (n *viewed) follow(c candidate) bool {
	if !c.owned {
		return false
	}
	same := c.before.Same(n.Definition)
	n.offered, n.reported = same && (c.before.offered || c.before.withheld == nil), c.before.reported
	switch code := reason.Of(n.withheld); code {
	case reason.MasterMissing, reason.PluginMissing, reason.PluginUnhealthy:
		if !same {
			n.reported = ""
		}
		if code != n.reported && (code == reason.PluginUnhealthy || n.offered || n.reported != "") {
			n.reported = code
			return true
		}
	case reason.PoolDevice:
		n.offered, n.reported = false, ""
	case "":
		if n.reported != "" && (c.status.answered || !c.status.asked) {
			n.reported = ""
			return true
		}
	}
	return false
}

// logReasons logs once why this node cannot attach a network, and again when the reason
// changes. Other reasons are logged elsewhere, or are the same for all networks.
func (p *Publisher) logReasons(ctx context.Context, networks map[attachment.NetworkRef]viewed) {
	logged := map[attachment.NetworkRef]string{}
	for ref, n := range networks {
		if n.unusable == nil {
			continue
		}
		logged[ref] = n.withheld.Error()
		if p.logged[ref] != logged[ref] {
			klog.FromContext(ctx).Info("Network is not offered on this node", "network", ref, "reason", logged[ref])
		}
	}
	p.logged = logged
}

// UseFeatures makes the publisher use the features that the API server has, and no others.
func (p *Publisher) UseFeatures(features slicewriter.Features) {
	p.mu.Lock()
	p.options.Exclusive = !features.SharedDevices
	p.published = nil
	p.mu.Unlock()
	p.Trigger()
}

// karpenterNode is the label of nodes that Karpenter has added.
const karpenterNode = "karpenter.sh/nodepool"

// NodeSeen is told the labels and annotations of the Node, whose profile somebody else may have changed.
func (p *Publisher) NodeSeen(labels, annotations map[string]string) {
	if p.profile == nil {
		return
	}
	p.profile.seen(labels[v1alpha1.ProfileLabel], annotations[v1alpha1.FactsAnnotation])
	announce := labels[karpenterNode] != ""
	p.mu.Lock()
	changed := p.options.Announce != announce
	p.options.Announce = announce
	p.mu.Unlock()
	if changed {
		p.Trigger()
	}
}

// Published returns the devices of the latest publication. It returns nil before the first.
func (p *Publisher) Published() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.published == nil {
		return nil
	}
	names := []string{}
	for _, devices := range p.published.Slices() {
		for _, d := range devices {
			names = append(names, d.Name)
		}
	}
	return names
}

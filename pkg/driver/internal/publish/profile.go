package publish

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
)

const (
	// sharedWait is how long the networks of a new profile wait for the controller's slices before the node
	// publishes them itself: an autoscaler judges a node with slices of its own by these alone. With many networks
	// the controller needs longer, sharedWaitMore for each.
	sharedWait, sharedWaitMore = 3 * time.Second, time.Millisecond
	// changeWait is how long nothing may happen to slices that are there and not right, before all nodes of the profile
	// publish what these lack themselves, each at a moment of its own.
	changeWait = 2 * time.Minute
	// writeLimit ends a write of the Node that hangs.
	writeLimit = 30 * time.Second
	// firstGain and maxGain limit the time for which a change must last before it changes the profile: what the node
	// has more, what no network asks for any more, and what plugins answer, which tenants choose. Each such change
	// doubles it, and maxGain without a change halves it. What the node loses changes the profile at once, so that
	// what comes and goes changes it seldom.
	firstGain = time.Second
	maxGain   = 16 * time.Minute
	// writeAgain is the pause after a failed write of the Node, and between two writes against somebody else's. Each
	// doubles it, up to maxGain, which a write that lasts as long undoes.
	writeAgain = 30 * time.Second
)

// NodeObject is the node's own Node, and the clients to write it and to watch the slices of its profile.
type NodeObject struct {
	Name string
	// Only has the node publish no network itself.
	Only     bool
	Kube     kubernetes.Interface
	Metadata metadata.Interface
}

// profile keeps the profile of the node: its facts in an annotation of the Node and their hash in a label. The
// controller makes the slices of a profile, and while there are none the node publishes its networks itself.
type profile struct {
	NodeObject
	background *background.Group
	// notify is called when the node has to publish more or less itself, and changed when all nodes of the profile may.
	notify, changed func()
	// spread returns a random time, over which all nodes write what concerns all of them.
	spread func() time.Duration
	write  background.Trigger

	mu sync.Mutex
	// held are the facts that hold, nil for a node without a profile, and text and name what the Node says of them.
	held       *offer.Facts
	text, name string
	// gain is how long a change must last, gained since when there is one, restless the time of the latest one or
	// loss, and since the time since which the Node has the profile.
	// again is the pause before the next write of what is lost.
	gain, again             time.Duration
	gained, restless, since time.Time
	// known is set once it is known whether the node has a profile, written if the Node has it, failed if the latest
	// write has failed, and unhurried if the next write may wait.
	known, written, failed, unhurried bool
	// alone is set while the node publishes all networks itself, and late has those that it does because shared
	// slices lack them. due is when that is decided, unless the slices, which were as before, change again. started
	// is set once it was.
	alone, started bool
	late           map[attachment.NetworkID]bool
	due            *time.Timer
	dueAt          time.Time
	before         map[string]string
	// wanted are the shared slices of offered.
	offered *offer.Offer
	wanted  map[string]sharedSlice
	shared  cache.Store // the slices of the profile
	stop    func()
}

// sharedSlice is a slice that the controller makes.
type sharedSlice struct {
	hash     string
	networks []attachment.NetworkID
}

func newProfile(node NodeObject, group *background.Group, notify, changed func(), spread func() time.Duration) *profile {
	return &profile{NodeObject: node, background: group, notify: notify, changed: changed, spread: spread, write: background.NewTrigger(), gain: firstGain, again: writeAgain}
}

// own returns those of the published networks that the node publishes itself. facts are nil if the node is not
// nadra's, or cannot share devices; asked is what all networks ask for, which are in all.
func (p *profile) own(ctx context.Context, facts *offer.Facts, asked offer.Facts, all, published []*offer.Definition) []*offer.Definition {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold(ctx, facts, asked, time.Now())
	if p.held == nil {
		return published
	}
	if p.Only {
		return nil
	}
	if p.await(all, time.Now()); p.alone {
		return published
	}
	shared := map[attachment.NetworkRef]bool{}
	for _, f := range slices.Compact([]*offer.Facts{p.held, p.soon(facts)}) {
		for _, d := range f.Shared(published) {
			shared[d.Network.Ref] = !p.late[d.ID]
		}
	}
	return slices.DeleteFunc(slices.Clone(published), func(d *offer.Definition) bool { return shared[d.Network.Ref] })
}

// await decides what the node publishes itself because the shared slices are not those that the controller makes of all
// networks. A controller that is slow changes them again and again. The caller holds mu.
func (p *profile) await(all []*offer.Definition, now time.Time) {
	there, wanted := p.there(), p.want(all)
	late := map[attachment.NetworkID]bool{}
	for name, s := range wanted {
		if there[name] != s.hash {
			for _, id := range s.networks {
				late[id] = true
			}
		}
	}
	switch {
	case p.failed:
		p.alone = true
	case !p.written:
	case len(late) == 0:
		p.alone, p.late, p.started, p.before = false, nil, true, there
		p.decideIn(0, now)
	case p.dueAt.IsZero() || !maps.Equal(there, p.before):
		wait := sharedWait + time.Duration(len(all))*sharedWaitMore
		switch {
		case p.started && len(there) > 0:
			wait = changeWait + p.spread()
		case len(p.before) > 0:
			wait += p.spread()
		}
		p.before = there
		p.decideIn(wait, now)
	case !now.Before(p.dueAt):
		p.alone, p.late, p.started = len(there) == 0, late, true
	}
}

// decideIn has await decide after a time, or not at all if that is zero. The caller holds mu.
func (p *profile) decideIn(wait time.Duration, now time.Time) {
	if p.due != nil {
		p.due.Stop()
	}
	p.due, p.dueAt = nil, time.Time{}
	if wait > 0 {
		p.due, p.dueAt = time.AfterFunc(wait, p.notify), now.Add(wait)
	}
}

// there returns the hashes of the shared slices, by their names. The caller holds mu.
func (p *profile) there() map[string]string {
	out := map[string]string{}
	if p.shared == nil {
		return out
	}
	for _, object := range p.shared.List() {
		if s, ok := object.(*metav1.PartialObjectMetadata); ok {
			out[s.Name] = s.Annotations[v1alpha1.OfferHashAnnotation]
		}
	}
	return out
}

// want returns the shared slices, by their names, once the controller knows all networks. The caller holds mu.
func (p *profile) want(all []*offer.Definition) map[string]sharedSlice {
	offered := p.offered.Of(offer.Arrangement{Networks: p.held.Shared(all), Pods: p.held.Pods}, offer.Options{})
	if offered == p.offered && p.wanted != nil {
		return p.wanted
	}
	p.offered, p.wanted = offered, map[string]sharedSlice{}
	for _, s := range offered.Shared(p.name) {
		one := sharedSlice{hash: s.Annotations[v1alpha1.OfferHashAnnotation]}
		for _, d := range s.Spec.Devices {
			one.networks = slices.AppendSeq(one.networks, attachment.NetworkIDs(d.Attributes))
		}
		p.wanted[s.Name] = one
	}
	return p.wanted
}

// soon returns the facts that are about to hold, if the node does not publish itself what it gains by them. The
// caller holds mu.
func (p *profile) soon(facts *offer.Facts) *offer.Facts {
	if p.gained.IsZero() || p.gain > sharedWait {
		return p.held
	}
	return facts
}

// hold decides which facts hold. The caller holds mu.
func (p *profile) hold(ctx context.Context, facts *offer.Facts, asked offer.Facts, now time.Time) {
	if facts == nil || p.held == nil {
		p.set(ctx, facts, now)
		return
	}
	switch left := p.held.Left(*facts, asked); {
	case !left.Equal(*p.held):
		p.unhurried = false
		p.set(ctx, &left, now)
	case facts.Equal(*p.held):
		if !p.gained.IsZero() {
			p.gained, p.restless = time.Time{}, now
		}
	case p.gained.IsZero():
		p.gain = max(firstGain, p.gain>>min(int64(now.Sub(p.restless)/maxGain), 62))
		p.gained = now
		time.AfterFunc(p.gain, p.notify)
	case now.Sub(p.gained) >= p.gain:
		p.gain = min(2*p.gain, maxGain)
		p.unhurried = facts.EqualHealth(*p.held) // all nodes may see it
		p.set(ctx, facts, now)
	}
}

// set makes facts hold, or none. The caller holds mu.
func (p *profile) set(ctx context.Context, facts *offer.Facts, now time.Time) {
	text, name := "", ""
	if facts != nil {
		var err error
		if text, name, err = facts.Text(); err != nil {
			klog.FromContext(ctx).Error(err, "The node has no profile, and publishes its networks itself")
			facts = nil
		}
	}
	if p.held, p.gained = facts, (time.Time{}); p.known && name == p.name {
		return
	}
	p.known, p.text, p.name, p.written, p.failed, p.restless = true, text, name, false, false, now
	p.wanted, p.late, p.before = nil, nil, nil
	p.decideIn(0, now)
	p.follow(ctx)
	p.write.Set()
}

// follow watches the slices of the profile, and no others. The caller holds mu.
func (p *profile) follow(ctx context.Context) {
	if p.stop != nil {
		p.stop()
	}
	p.stop, p.shared = nil, nil
	if p.name == "" {
		return
	}
	selector := labels.SelectorFromSet(labels.Set{v1alpha1.ProfileLabel: p.name}).String()
	of := fields.Set{resourceapi.ResourceSliceSelectorDriver: v1alpha1.DriverName, resourceapi.ResourceSliceSelectorNodeName: ""}.String() // no node's
	informer := metadatainformer.NewFilteredMetadataInformer(p.Metadata, resourceapi.SchemeGroupVersion.WithResource("resourceslices"), metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector, o.FieldSelector = selector, of }).Informer()
	if _, err := informer.AddEventHandler(background.OnChange(p.changed)); err != nil {
		klog.FromContext(ctx).Error(err, "The slices of the node's profile cannot be watched; the node publishes its networks itself", "profile", p.name)
		return
	}
	p.shared, p.stop = informer.GetStore(), p.background.Start(informer.RunWithContext)
}

// run writes the Node whenever the profile changes, until ctx ends.
func (p *profile) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.write.C():
		}
		if p.waits() {
			select {
			case <-ctx.Done():
				return
			case <-p.write.C(): // what cannot wait has changed, too
			case <-time.After(p.spread()):
			}
		}
		if err := p.put(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Writing the node's profile failed; the node shares no networks until it is written", "retryAfter", p.lost())
		}
	}
}

// waits reports whether the next write may wait, because all nodes may have to write at this time.
func (p *profile) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.unhurried
	p.unhurried = false
	return out
}

// put writes the profile to the Node.
func (p *profile) put(ctx context.Context) error {
	p.mu.Lock()
	text, name := p.text, p.name
	p.mu.Unlock()
	value := func(s string) *string {
		if s == "" {
			return nil // removes it
		}
		return &s
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": map[string]*string{v1alpha1.ProfileLabel: value(name)}, "annotations": map[string]*string{v1alpha1.FactsAnnotation: value(text)},
	}})
	if err != nil {
		return fmt.Errorf("writing the profile of Node %s: %w", p.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	if _, err := p.Kube.CoreV1().Nodes().Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("writing the profile of Node %s: %w", p.Name, err)
	}
	p.mu.Lock()
	if p.name == name {
		p.written, p.failed, p.since = true, false, time.Now()
	}
	p.mu.Unlock()
	p.notify()
	return nil
}

// lost has the node publish its networks itself until the Node says of the profile what it should, and has that
// written again after a pause, which it returns.
func (p *profile) lost() time.Duration {
	p.mu.Lock()
	if p.written && time.Since(p.since) >= maxGain {
		p.again = writeAgain
	}
	pause := p.again
	p.written, p.failed, p.again = false, true, min(2*pause, maxGain)
	p.mu.Unlock()
	p.notify()
	time.AfterFunc(pause, p.write.Set)
	return pause
}

// seen compares what the Node says of the profile with what it should, and has it written again if somebody else has
// changed it. An event from before the latest write is followed by another one.
func (p *profile) seen(label, facts string) {
	p.mu.Lock()
	right, written := label == p.name && facts == p.text, p.written
	if right && p.failed {
		p.written, p.failed, p.since = true, false, time.Now()
	}
	p.mu.Unlock()
	switch {
	case written && !right:
		p.lost()
	case right && !written:
		p.notify()
	}
}

package driver

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/events"
)

const (
	// ownerWait bounds how long the start waits to read the Node. A driver that
	// does not know whose the node is takes it for another's.
	ownerWait = 10 * time.Second
)

var nodeResource = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}

// Ownership says which node, and which of its pods, is the driver's (design D11).
type Ownership struct {
	// Label with Value is what the Node carries while it is the driver's.
	// Without Label it always is.
	Label, Value string
	// Refuse has sandboxes refused, on a node that is the driver's, of pods
	// that name networks by annotation and have no claim: nobody else would
	// attach them.
	Refuse bool
	// Exempt are patterns of "namespace/name", as of path.Match, of pods that
	// are not refused.
	Exempt []string
}

// owner knows whether the node is the driver's. That decides about what is
// published and about pods that are new and have no claim, and about nothing
// else: what was allocated, prepared or attached is served to its end.
type owner struct {
	Ownership
	node     string
	informer cache.SharedIndexInformer // nil without Label
	synced   cache.InformerSynced
	wait     time.Duration // ownerWait outside of tests
	ours     atomic.Bool
	// changed is called after every change; told is whether anybody should hear
	// of it, which is not so of what a driver finds at its start.
	changed func(ours, told bool)
}

// newOwner makes a watch of one Node, and of no other.
func newOwner(client metadata.Interface, node string, o Ownership) (*owner, error) {
	w := &owner{Ownership: o, node: node, wait: ownerWait, changed: func(bool, bool) {}}
	if o.Label == "" {
		return w, nil
	}
	w.informer = metadatainformer.NewFilteredMetadataInformer(client, nodeResource, metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, node).String()
		}).Informer()
	registration, err := w.informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, first bool) { w.see(obj, !first) },
		UpdateFunc: func(_, obj any) { w.see(obj, true) },
		DeleteFunc: func(any) { w.set(false, true) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching Node %s: %w", node, err)
	}
	w.synced = registration.HasSynced
	return w, nil
}

func (w *owner) see(obj any, told bool) {
	if m := metaOf(obj); m != nil && m.Name == w.node {
		w.set(m.Labels[w.Label] == w.Value, told)
	}
}

func (w *owner) set(ours, told bool) {
	if w.ours.Swap(ours) != ours {
		w.changed(ours, told)
	}
}

// mine reports whether the node is the driver's, as far as is known.
func (w *owner) mine() bool { return w.informer == nil || w.ours.Load() }

// why says in words what makes the node the driver's.
func (w *owner) why() string {
	if w.Label == "" {
		return "as all nodes are"
	}
	return "by its label " + w.Label + "=" + w.Value
}

// begin watches until ctx ends, and returns when it is known whose the node
// is, or has waited for long enough.
func (w *owner) begin(ctx context.Context, start func(func() error)) {
	if w.informer == nil {
		return
	}
	start(func() error { w.informer.RunWithContext(ctx); return nil })
	limited, cancel := context.WithTimeout(ctx, w.wait)
	defer cancel()
	logger := klog.FromContext(ctx)
	switch {
	case cache.WaitForCacheSync(limited.Done(), w.synced):
		logger.Info("The Node says whose its networks are", "label", w.Label, "wanted", w.Value, "ours", w.mine())
	case ctx.Err() == nil:
		logger.Error(nil, "The Node could not be read, and so nothing is published until it is: may the driver list and watch nodes?",
			"node", w.node, "waited", w.wait)
	}
}

// ownerChanged follows a label that comes or goes.
func (d *Driver) ownerChanged(ctx context.Context, ours, told bool) {
	d.publisher.poke()
	d.machines.poke()
	if !told {
		return
	}
	label := d.owner.Label + "=" + d.owner.Value
	reason, message := events.NetworksReleased, fmt.Sprintf(
		"label %s is gone: nadra withdraws its devices from this node; pods that have networks of nadra keep them until they end", label)
	if ours {
		reason, message = events.NetworksOwned, fmt.Sprintf(
			"label %s is here: nadra publishes its devices on this node; pods that run are not touched", label)
	}
	klog.FromContext(ctx).Info("The owner of this node's networks has changed", "label", label, "ours", ours)
	d.events.Node(corev1.EventTypeNormal, reason, message)
}

// offers returns the candidates that this node offers: all or none.
func (w *owner) offers(candidates map[attachment.NetworkRef]candidate) map[attachment.NetworkRef]candidate {
	if w.mine() {
		return candidates
	}
	return nil
}

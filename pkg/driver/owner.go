package driver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/atomicfile"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// ownerWait limits how long the start waits to read the Node. Until the driver has read it,
// the node counts as not nadra's.
const ownerWait = 10 * time.Second

var nodeResource = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}

// Ownership determines which nodes, and which of their pods, are nadra's.
type Ownership struct {
	// Label with Value is on the Node while it is nadra's. Without Label it always is.
	Label, Value string
	// Unclaimed says what happens, on a node of nadra's, to new pods that name networks by
	// annotation and have no claim. A label of the namespace goes first.
	Unclaimed UnclaimedPolicy
	// Exempt are patterns of "namespace/name", as of path.Match, of pods that are allowed
	// whatever the policy is.
	Exempt []string
}

// owner watches whether the node is nadra's. That decides what is published, and whether new
// pods without a claim are served or refused, and nothing else: allocated, prepared and attached claims
// are served to their end.
type owner struct {
	Ownership
	node string
	// memory is the file with what the latest driver knew of the owner, and before its content: the
	// label if it attached pods without claims. before is nil if there was no driver.
	memory   string
	before   atomic.Pointer[string]
	informer cache.SharedIndexInformer // nil without Label and profiles
	wait     time.Duration             // ownerWait outside of tests
	labelled atomic.Bool
	// returning is true while the node is given back to Multus.
	returning atomic.Bool
	// seen is true once the Node was read.
	seen atomic.Bool
}

// newOwner returns a watch of one Node, and of no other, that has not started.
func newOwner(client metadata.Interface, node, stateDir string, o Ownership, profiles bool) *owner {
	w := &owner{Ownership: o, node: node, memory: filepath.Join(stateDir, "owner"), wait: ownerWait}
	if o.Label == "" && !profiles {
		return w
	}
	w.informer = metadatainformer.NewFilteredMetadataInformer(client, nodeResource, metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, node).String()
		}).Informer()
	return w
}

// owned reports whether the node is nadra's, as far as that is known.
func (w *owner) owned() bool { return w.Label == "" || w.labelled.Load() }

// attaches reports whether nadra attaches new pods without claims. While the node is given back, it
// attaches those that Multus does not attach yet: they would run without their networks. Until the Node
// was read, what an earlier driver has read counts; known is false if there was none.
func (w *owner) attaches() (attaches, known bool) {
	if w.known() {
		return w.owned() || w.returning.Load(), true
	}
	before := w.before.Load()
	return before != nil && *before == w.label(), before != nil
}

// label returns the label by which the node is nadra's.
func (w *owner) label() string { return w.Label + "=" + w.Value }

// remember writes for the next driver whether nadra attaches new pods without claims. An error is only
// logged: that driver then knows it as soon as it has read the Node.
func (w *owner) remember(ctx context.Context) {
	text := ""
	if attaches, _ := w.attaches(); attaches {
		text = w.label()
	}
	if before := w.before.Swap(&text); before != nil && *before == text {
		return
	}
	if err := atomicfile.Write(w.memory, []byte(text), 0o600); err != nil {
		klog.FromContext(ctx).Error(err, "The owner of the node's networks could not be remembered for the next driver", "file", w.memory)
	}
}

// known reports whether the Node was read, so that owned is certain.
func (w *owner) known() bool { return w.Label == "" || w.seen.Load() }

// describe returns why the node is nadra's.
func (w *owner) describe() string {
	if w.Label == "" {
		return "as all nodes are"
	}
	return "by its label " + w.Label + "=" + w.Value
}

// start watches the Node until ctx ends, and calls changed after every change of the owner, and node with
// its labels and annotations. report is false for what a driver finds when it is started. It returns when the Node was read,
// or after ownerWait.
func (w *owner) start(ctx context.Context, run func(func() error), changed func(ctx context.Context, owned, report bool), node func(labels, annotations map[string]string)) error {
	if w.informer == nil {
		return nil
	}
	if text, err := os.ReadFile(w.memory); err == nil {
		w.before.Store(new(string(text)))
	}
	set := func(labelled, report bool) {
		different := w.labelled.Swap(labelled) != labelled
		w.seen.Store(true)
		w.remember(ctx)
		if different {
			changed(ctx, labelled, report)
		}
	}
	read := func(obj any, report bool) {
		if m := metaOf(obj); m != nil && m.Name == w.node {
			node(m.Labels, m.Annotations)
			if w.Label == "" {
				return
			}
			w.returning.Store(m.Labels[w.Label] == v1alpha1.OwnerReturning)
			set(m.Labels[w.Label] == w.Value, report)
		}
	}
	registration, err := w.informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, first bool) { read(obj, !first) },
		UpdateFunc: func(_, obj any) { read(obj, true) },
		DeleteFunc: func(any) {
			node(nil, nil)
			if w.Label != "" {
				w.returning.Store(false)
				set(false, true)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching Node %s: %w", w.node, err)
	}
	run(func() error { w.informer.RunWithContext(ctx); return nil })
	if w.Label == "" {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, w.wait)
	defer cancel()
	logger := klog.FromContext(ctx)
	switch {
	case cache.WaitForCacheSync(limited.Done(), registration.HasSynced):
		logger.Info("Read the owner of the node's networks", "label", w.label(), "owned", w.owned())
	case ctx.Err() == nil:
		logger.Error(nil, "The Node could not be read yet, and nothing is published until it is: check that the driver may list and watch nodes",
			"node", w.node, "timeout", w.wait)
	}
	return nil
}

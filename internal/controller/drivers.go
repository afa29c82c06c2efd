package controller

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// drivers publishes the nodes that should have a driver and have none that is ready: those that are nadra's by their
// label, and those with pods that nadra attaches. No driver can report that it is missing. A replica that does not lead
// knows no nodes and no pods, and publishes none.
type drivers struct {
	cache  podCache
	meters *metrics.Controller
	// labels is set if the label of a node says that it is nadra's; beside Multus it does not.
	labels bool

	mu    sync.Mutex
	nodes map[string]*nodeDrivers
	// at has the node on which a pod is counted.
	at map[types.UID]string
}

// nodeDrivers is what is known about the drivers of a node.
type nodeDrivers struct {
	owned         bool
	served, ready map[types.UID]bool
	published     bool
}

func newDrivers(of podCache, meters *metrics.Controller, o Options) *drivers {
	return &drivers{cache: of, meters: meters, labels: !o.BesideMultus, nodes: map[string]*nodeDrivers{}, at: map[types.UID]string{}}
}

// setUp handles the events of nodes. migration hands on those of pods.
func (d *drivers) setUp(manager.Manager) error {
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	informer, err := d.cache.GetInformer(context.Background(), node, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	set := func(object any, exists bool) {
		if n, ok := object.(*metav1.PartialObjectMetadata); ok {
			d.setNode(n.Name, exists && n.Labels[v1alpha1.OwnerLabel] == v1alpha1.OwnerNadra)
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { set(object, true) },
		UpdateFunc: func(_, object any) { set(object, true) },
		DeleteFunc: func(object any) { set(lastState(object), false) },
	}); err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	return nil
}

// lastState returns the object of a deletion.
func lastState(object any) any {
	if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		return gone.Obj
	}
	return object
}

// setNode remembers whether a node is nadra's by its label.
func (d *drivers) setNode(name string, owned bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of(name).owned = owned && d.labels
	d.publish(name)
}

// setPod remembers a slim pod. attacher is who attaches its networks; it is "" for a pod that is gone.
func (d *drivers) setPod(pod *corev1.Pod, attacher attachment.Attacher, ready bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if before, known := d.at[pod.UID]; known {
		delete(d.at, pod.UID)
		delete(d.of(before).served, pod.UID)
		delete(d.of(before).ready, pod.UID)
		defer d.publish(before)
	}
	if pod.Spec.NodeName == "" || attacher != attachment.OfNadra && !ready {
		return
	}
	d.at[pod.UID] = pod.Spec.NodeName
	node := d.of(pod.Spec.NodeName)
	if ready {
		node.ready[pod.UID] = true
	} else {
		node.served[pod.UID] = true
	}
	d.publish(pod.Spec.NodeName)
}

// of returns a node, also one of which nothing is known yet. The caller holds mu.
func (d *drivers) of(node string) *nodeDrivers {
	n := d.nodes[node]
	if n == nil {
		n = &nodeDrivers{served: map[types.UID]bool{}, ready: map[types.UID]bool{}}
		d.nodes[node] = n
	}
	return n
}

// publish sets the metric of a node, and forgets the node if nothing is known about it. The caller holds mu.
func (d *drivers) publish(node string) {
	n := d.of(node)
	if missing := (n.owned || len(n.served) > 0) && len(n.ready) == 0; missing != n.published {
		n.published = missing
		d.meters.WithoutDriver(node, missing)
	}
	if !n.owned && len(n.served) == 0 && len(n.ready) == 0 {
		delete(d.nodes, node)
	}
}

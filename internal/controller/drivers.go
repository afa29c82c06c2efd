package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// drivers publishes the nodes that should have a driver and have none that is ready: those that are nadra's by their
// label, and those with pods that nadra attaches. No driver can report that it is missing. A replica that does not lead
// knows no nodes and no pods, and publishes none. Such a node loses the label of its profile after a while, because
// pods with claims would wait there; its next driver writes it again. Nothing is taken from a node while no driver is
// known at all: the controller may look for them in the wrong namespace.
type drivers struct {
	cache  podCache
	meters *metrics.Controller
	// nodesWriter removes labels of nodes.
	nodesWriter client.Writer
	// namespace is that of the drivers.
	namespace string
	// labels is set if the label of a node says that it is nadra's; beside Multus it does not.
	labels bool

	mu    sync.Mutex
	nodes map[string]*nodeDrivers
	// at has the node on which a pod is counted.
	at map[types.UID]string
	// seen is set once a driver was ready on any node.
	seen bool
}

// nodeDrivers is what is known about the drivers of a node.
type nodeDrivers struct {
	owned, profiled bool
	served, ready   map[types.UID]bool
	published       bool
	// since is the time since which it has no driver that is ready, had is set once it had one.
	since time.Time
	had   bool
	// withdrawal is when the label of its profile is removed, or nil.
	withdrawal *time.Timer
}

// missing reports whether the node should have a driver and has none that is ready.
func (n *nodeDrivers) missing() bool {
	return (n.owned || n.profiled || len(n.served) > 0) && len(n.ready) == 0
}

const (
	// driverGrace is how long a node with a profile may have no driver that is ready: longer than an update takes.
	driverGrace = time.Minute
	// firstDriverGrace is how long it may wait for its first one, or for one that a new leader sees: an autoscaler may
	// give new nodes their profile.
	firstDriverGrace = 10 * time.Minute
)

// grace returns how long the node may have no driver that is ready.
func (n *nodeDrivers) grace() time.Duration {
	if n.had {
		return driverGrace
	}
	return firstDriverGrace
}

func newDrivers(of podCache, meters *metrics.Controller, nodesWriter client.Writer, o Options) *drivers {
	return &drivers{cache: of, meters: meters, nodesWriter: nodesWriter, namespace: o.DriverNamespace, labels: !o.BesideMultus, nodes: map[string]*nodeDrivers{}, at: map[types.UID]string{}}
}

// setUp handles the events of nodes. migration hands on those of pods.
func (d *drivers) setUp(manager.Manager) error {
	informer, err := d.cache.GetInformer(context.Background(), nodeMetadata(), cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	set := func(object any, exists bool) {
		if n, ok := object.(*metav1.PartialObjectMetadata); ok {
			d.setNode(n.Name, exists && n.Labels[v1alpha1.OwnerLabel] == v1alpha1.OwnerNadra, exists && n.Labels[v1alpha1.ProfileLabel] != "")
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

// setNode remembers whether a node is nadra's by its label, and whether it has a profile.
func (d *drivers) setNode(name string, owned, profiled bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.of(name)
	n.owned, n.profiled = owned && d.labels, profiled
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
		node.ready[pod.UID], d.seen = true, true
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
	n.had = n.had || len(n.ready) > 0
	missing := n.missing()
	if missing != n.published {
		n.published, n.since = missing, time.Now()
		d.meters.WithoutDriver(node, missing)
	}
	switch due := missing && n.profiled; {
	case due && n.withdrawal == nil:
		n.withdrawal = time.AfterFunc(n.grace(), func() { d.withdraw(node) })
	case !due && n.withdrawal != nil:
		n.withdrawal.Stop()
		n.withdrawal = nil
	}
	if !missing && len(n.ready) == 0 {
		delete(d.nodes, node)
	}
}

// withdraw removes the label of the profile from a node that has had no driver for a while.
func (d *drivers) withdraw(node string) {
	d.mu.Lock()
	n := d.nodes[node]
	due := n != nil && n.withdrawal != nil && time.Since(n.since) >= n.grace()
	if due && !d.seen {
		n.withdrawal.Reset(driverGrace)
		due = false
		log.Log.Error(nil, "A node has a profile and no driver, but none was ready on any node: if the drivers are in another namespace, name it by --driver-namespace", "node", node)
	}
	d.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), driverGrace)
	defer cancel()
	object := nodeMetadata()
	object.Name = node
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, v1alpha1.ProfileLabel))
	err := d.nodesWriter.Patch(ctx, object, patch)
	d.mu.Lock()
	if n.withdrawal != nil { // the event of the removal stops it
		n.withdrawal.Reset(driverGrace)
	}
	d.mu.Unlock()
	if client.IgnoreNotFound(err) != nil {
		log.Log.Error(err, "A node without a driver keeps its profile, and claims may be allocated there", "node", node, "retryAfter", driverGrace)
		return
	}
	log.Log.Info("The profile of a node without a driver was removed: no claim is allocated there until it has one", "node", node)
}

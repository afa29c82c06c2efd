package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

// driven is how many nodes have a driver while a NAD changes. More of them would take longer on
// this machine than all other measurements.
const driven = 1_000

// Driven returns the number of nodes with a driver, for the document.
func (r *report) Driven() int { return driven }

const (
	// atOnce is how many objects are created or deleted at a time.
	atOnce = 32
	// joining is how many drivers start at a time; each waits a second for its list.
	joining = 200
)

// fleet has the simulated nodes. Each has a Node object and slices, which are written by
// requests of the driver's account on the node, or the label of a profile, whose slices are written by the
// controller's. While a NAD changes, the first nodes also run the library's controller that publishes for a
// driver, and watch what a driver watches of slices. The nodes share connections.
type fleet struct {
	kube   kubernetes.Interface // the benchmark's own
	config *rest.Config
	log    *writeLog
	ctx    context.Context // of the controllers
	cancel context.CancelFunc

	// nodes has the UIDs of the nodes, by their numbers.
	nodes []types.UID
	// offer is what all nodes have; nil if they do not have the same. labelled is set while they have labels of profiles.
	offer    *offer
	labelled bool
	drivers  []*simulated

	mu       sync.Mutex // of what follows, and of drivers while they start
	slices   []string   // the names of all slices
	troubles []error    // errors that the controllers will retry
}

// simulated is the driver of a simulated node.
type simulated struct {
	node       string
	controller *resourceslice.Controller
	// watch is that of the slices of its profile, seen is set once these have changed.
	watch watch.Interface
	seen  atomic.Bool
}

// done reports whether the driver has changed its slices, or seen that those of its profile changed.
func (d *simulated) done() bool { return d.seen.Load() || d.controller.GetStats().NumUpdates > 0 }

// stop ends the driver. Its slices remain.
func (d *simulated) stop() {
	d.controller.Stop()
	if d.watch != nil {
		d.watch.Stop()
	}
}

func newFleet(b *testing.B, l *lab.Lab) *fleet {
	config, err := l.Cluster.RESTConfig()
	must(b, err)
	config.QPS = -1
	// As the driver has it.
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := rest.HTTPClientFor(config)
	must(b, err)
	kube, err := kubernetes.NewForConfigAndClient(config, client)
	must(b, err)
	f := &fleet{kube: kube, config: config, log: &writeLog{next: client.Transport, updates: map[string]*update{}}}
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(b.Context()))
	return f
}

// stop ends the controllers. Their slices remain.
func (f *fleet) stop() {
	f.cancel()
	for _, d := range f.drivers {
		d.stop()
	}
	f.drivers = nil
}

// size returns the number of nodes.
func (f *fleet) size() int { return len(f.nodes) }

// nodeName names a node by its number.
func nodeName(number int) string { return fmt.Sprintf("simulated-%05d", number) }

// lastNode returns the name of the node that gets an offer last.
func (f *fleet) lastNode() string { return nodeName(f.size() - 1) }

// each calls do for the numbers from one up to, but not including, another, some at a time.
func each(from, to, atOnce int, do func(number int) error) error {
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := from; i < to; i++ {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}

// join adds nodes up to that number.
func (f *fleet) join(to int) error {
	from := f.size()
	f.nodes = append(f.nodes, make([]types.UID, max(0, to-from))...)
	return each(from, to, atOnce, f.createNode)
}

// createNode makes a node that is Ready and has room for everything.
func (f *fleet) createNode(number int) error {
	name := nodeName(number)
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("250"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}},
		},
	}
	created, err := f.kube.CoreV1().Nodes().Create(f.ctx, node, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating node %s: %w", name, err)
	}
	f.nodes[number] = created.UID
	// The API server taints each new node. The controller manager would remove the taints of a thousand
	// nodes in some minutes.
	if _, err := f.kube.CoreV1().Nodes().Patch(f.ctx, name, types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("removing the taints of node %s: %w", name, err)
	}
	return nil
}

// publish creates the slices of an offer on all nodes, or those of its profiles and the labels of all nodes, and
// returns the number of slices. What the last node needs comes last: who knows that knows all. Slices of another
// offer are deleted first.
func (f *fleet) publish(b *testing.B, o *offer) int {
	b.Helper()
	f.withdraw(b)
	publish := func(number int) error { return f.createSlices(number, o) }
	if len(o.profiles) > 0 {
		for i := range o.profiles {
			must(b, f.createShared(o.profileOf(f.size()+i)))
		}
		publish = func(number int) error { return f.label(number, o.profileOf(number)) }
		f.labelled = true
	}
	must(b, each(0, f.size()-1, atOnce, publish))
	must(b, publish(f.size()-1))
	f.offer = o
	return len(f.slices)
}

// label has a node say that it has a profile, or none.
func (f *fleet) label(number int, p profile) error {
	label, facts := &p.name, &p.facts
	if p.name == "" {
		label, facts = nil, nil // removes them
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": map[string]*string{v1alpha1.ProfileLabel: label}, "annotations": map[string]*string{v1alpha1.FactsAnnotation: facts},
	}})
	if err != nil {
		return err
	}
	_, err = f.kube.CoreV1().Nodes().Patch(f.ctx, nodeName(number), types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// withdraw deletes all slices and labels. No slice remains that the fleet does not know.
func (f *fleet) withdraw(b *testing.B) {
	b.Helper()
	all := f.kube.ResourceV1().ResourceSlices()
	must(b, each(0, len(f.slices), atOnce, func(i int) error {
		return all.Delete(f.ctx, f.slices[i], metav1.DeleteOptions{})
	}))
	if f.labelled {
		must(b, each(0, f.size(), atOnce, func(number int) error { return f.label(number, profile{}) }))
	}
	f.offer, f.slices, f.labelled = nil, nil, false
	rest, err := all.List(b.Context(), metav1.ListOptions{Limit: 1})
	must(b, err)
	if len(rest.Items) > 0 {
		b.Fatalf("deleting all slices: %s is left", rest.Items[0].Name)
	}
}

// asDriver returns a client with the rights of nadra's driver on a node.
func (f *fleet) asDriver(node string) (kubernetes.Interface, error) {
	return kubernetes.NewForConfigAndClient(f.config, f.as(nadraAccount, node))
}

// as returns an HTTP client with the rights of a service account on a node.
func (f *fleet) as(account, node string) *http.Client {
	return &http.Client{Transport: transport.NewImpersonatingRoundTripper(transport.ImpersonationConfig{
		UserName: account,
		Extra:    map[string][]string{"authentication.kubernetes.io/node-name": {node}},
	}, f.log)}
}

// createSlices creates the slices that the library's controller would create, so that a
// controller that starts later has nothing to write. Those of another driver come first.
func (f *fleet) createSlices(number int, o *offer) error {
	if o.beside != nil {
		if err := f.createSlices(number, o.beside); err != nil {
			return err
		}
	}
	node, kube := nodeName(number), f.kube
	if o.driver == lab.DriverName {
		var err error
		if kube, err = f.asDriver(node); err != nil {
			return err
		}
	}
	for name, pool := range o.pools.on(node).Pools {
		for i, slice := range pool.Slices {
			err := f.create(kube, &resourceapi.ResourceSlice{
				ObjectMeta: metav1.ObjectMeta{
					GenerateName:    fmt.Sprintf("%05x-%s-%s-", i, o.driver, node),
					OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: f.nodes[number], Controller: ptr.To(true)}},
				},
				Spec: resourceapi.ResourceSliceSpec{
					Driver: o.driver, NodeName: &node, Devices: slice.Devices,
					Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: int64(len(pool.Slices))},
				},
			})
			if err != nil {
				return fmt.Errorf("creating a slice of %s: %w", node, err)
			}
		}
	}
	return nil
}

// createShared creates the slices of a profile.
func (f *fleet) createShared(p profile) error {
	kube, err := f.asController()
	for i := 0; i < len(p.slices) && err == nil; i++ {
		err = f.create(kube, &p.slices[i])
	}
	return err
}

// asController returns a client with the rights of nadra's controller.
func (f *fleet) asController() (kubernetes.Interface, error) {
	return kubernetes.NewForConfigAndClient(f.config, f.as(controllerAccount, ""))
}

// create creates a slice that withdraw deletes.
func (f *fleet) create(kube kubernetes.Interface, slice *resourceapi.ResourceSlice) error {
	created, err := kube.ResourceV1().ResourceSlices().Create(f.ctx, slice, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slices = append(f.slices, created.Name)
	return nil
}

// rewrite has the controller write those slices of profiles that change.
func (f *fleet) rewrite(o *offer) error {
	kube, err := f.asController()
	if err != nil {
		return err
	}
	all := kube.ResourceV1().ResourceSlices()
	for _, wanted := range o.shared() {
		slice, err := all.Get(f.ctx, wanted.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if apiequality.Semantic.DeepEqual(slice.Spec.Devices, wanted.Spec.Devices) {
			continue
		}
		wanted.Spec.Pool.Generation = slice.Spec.Pool.Generation + 1
		slice.Annotations, slice.Spec = wanted.Annotations, wanted.Spec
		if _, err := all.Update(f.ctx, slice, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// drive starts the drivers of the first nodes.
func (f *fleet) drive(o *offer) error {
	return each(0, min(driven, f.size()), joining, func(number int) error { return f.start(number, o) })
}

// start starts what nadra's driver runs: the library's controller that publishes the node's own slices, and
// a watch of the metadata of its profile's.
func (f *fleet) start(number int, o *offer) error {
	node := nodeName(number)
	kube, err := f.asDriver(node)
	if err != nil {
		return err
	}
	d := &simulated{node: node}
	d.controller, err = resourceslice.StartController(f.ctx, resourceslice.Options{
		DriverName:   lab.DriverName,
		KubeClient:   kube,
		Owner:        &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: node, UID: f.nodes[number]},
		Resources:    o.pools.on(node),
		ErrorHandler: f.trouble,
	})
	if err != nil {
		return fmt.Errorf("starting the slice controller of %s: %w", node, err)
	}
	if len(o.profiles) > 0 {
		err = f.follow(d, o.profileOf(number))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drivers = append(f.drivers, d)
	return err
}

// follow has a driver watch the slices of its profile.
func (f *fleet) follow(d *simulated, p profile) error {
	client, err := metadata.NewForConfigAndClient(f.config, f.as(nadraAccount, d.node))
	if err != nil {
		return err
	}
	d.watch, err = client.Resource(resourceapi.SchemeGroupVersion.WithResource("resourceslices")).Watch(f.ctx, metav1.ListOptions{
		LabelSelector: v1alpha1.ProfileLabel + "=" + p.name, ResourceVersion: "0",
	})
	if err != nil {
		return fmt.Errorf("watching the slices of the profile of %s: %w", d.node, err)
	}
	go func() {
		for e := range d.watch.ResultChan() {
			if e.Type == watch.Modified {
				d.seen.Store(true)
			}
		}
	}()
	return nil
}

// rest stops the drivers.
func (f *fleet) rest(b *testing.B) {
	b.Helper()
	must(b, each(0, len(f.drivers), joining, func(i int) error {
		f.drivers[i].stop()
		return nil
	}))
	f.drivers = nil
}

func (f *fleet) trouble(_ context.Context, err error, msg string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.troubles = append(f.troubles, fmt.Errorf("%s: %w", msg, err))
}

// report logs the errors since the last call.
func (f *fleet) report(b *testing.B) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.troubles) > 0 {
		b.Logf("%d errors that were retried; the first is: %v", len(f.troubles), f.troubles[0])
	}
	f.troubles = nil
}

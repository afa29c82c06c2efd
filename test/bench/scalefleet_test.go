//go:build e2e

package bench

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"

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
// requests of the driver's account on the node. While a NAD changes, the first nodes also run
// the library's controller that publishes for a driver, with a watch of its own. The nodes share
// connections.
type fleet struct {
	kube   kubernetes.Interface // the benchmark's own
	config *rest.Config
	log    *writeLog
	ctx    context.Context // of the controllers
	cancel context.CancelFunc

	// nodes has the UIDs of the nodes, by their numbers.
	nodes []types.UID
	// offer is what all nodes publish; nil if they do not publish the same.
	offer   *offer
	drivers []*simulated

	mu       sync.Mutex // of what follows, and of drivers while they start
	slices   []string   // the names of all slices
	troubles []error    // errors that the controllers will retry
}

// simulated is the driver of a simulated node.
type simulated struct {
	node       string
	controller *resourceslice.Controller
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
		d.controller.Stop()
	}
	f.drivers = nil
}

// size returns the number of nodes.
func (f *fleet) size() int { return len(f.nodes) }

// nodeName names a node by its number.
func nodeName(number int) string { return fmt.Sprintf("simulated-%05d", number) }

// lastNode returns the name of the node that publishes last.
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

// publish creates the slices of an offer on all nodes, those of the last node at the end, and
// returns their number. Slices of another offer are deleted first.
func (f *fleet) publish(b *testing.B, o *offer) int {
	b.Helper()
	f.withdraw(b)
	publish := func(number int) error { return f.createSlices(number, o) }
	must(b, each(0, f.size()-1, atOnce, publish))
	must(b, publish(f.size()-1))
	f.offer = o
	return len(f.slices)
}

// withdraw deletes all slices. No slice remains that the fleet does not know.
func (f *fleet) withdraw(b *testing.B) {
	b.Helper()
	all := f.kube.ResourceV1().ResourceSlices()
	must(b, each(0, len(f.slices), atOnce, func(i int) error {
		return all.Delete(f.ctx, f.slices[i], metav1.DeleteOptions{})
	}))
	f.offer, f.slices = nil, nil
	rest, err := all.List(b.Context(), metav1.ListOptions{Limit: 1})
	must(b, err)
	if len(rest.Items) > 0 {
		b.Fatalf("deleting all slices: %s is left", rest.Items[0].Name)
	}
}

// asDriver returns a client with the rights of nadra's driver on a node.
func (f *fleet) asDriver(node string) (kubernetes.Interface, error) {
	return kubernetes.NewForConfigAndClient(f.config, &http.Client{
		Transport: transport.NewImpersonatingRoundTripper(transport.ImpersonationConfig{
			UserName: nadraAccount,
			Extra:    map[string][]string{"authentication.kubernetes.io/node-name": {node}},
		}, f.log),
	})
}

// createSlices creates the slices that the library's controller would create, so that a
// controller that starts later has nothing to write.
func (f *fleet) createSlices(number int, o *offer) error {
	node, kube := nodeName(number), f.kube
	if o.driver == lab.DriverName {
		var err error
		if kube, err = f.asDriver(node); err != nil {
			return err
		}
	}
	for name, pool := range o.pools.on(node).Pools {
		for i, slice := range pool.Slices {
			created, err := kube.ResourceV1().ResourceSlices().Create(f.ctx, &resourceapi.ResourceSlice{
				ObjectMeta: metav1.ObjectMeta{
					GenerateName:    fmt.Sprintf("%05x-%s-%s-", i, o.driver, node),
					OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: f.nodes[number], Controller: ptr.To(true)}},
				},
				Spec: resourceapi.ResourceSliceSpec{
					Driver: o.driver, NodeName: &node, Devices: slice.Devices,
					Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: int64(len(pool.Slices))},
				},
			}, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("creating a slice of %s: %w", node, err)
			}
			f.mu.Lock()
			f.slices = append(f.slices, created.Name)
			f.mu.Unlock()
		}
	}
	return nil
}

// drive starts the controllers of the first nodes.
func (f *fleet) drive(p pools) error {
	return each(0, min(driven, f.size()), joining, func(number int) error { return f.start(number, p) })
}

// start starts the library's controller as it publishes for nadra's driver.
func (f *fleet) start(number int, p pools) error {
	node := nodeName(number)
	kube, err := f.asDriver(node)
	if err != nil {
		return err
	}
	controller, err := resourceslice.StartController(f.ctx, resourceslice.Options{
		DriverName:   lab.DriverName,
		KubeClient:   kube,
		Owner:        &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: node, UID: f.nodes[number]},
		Resources:    p.on(node),
		ErrorHandler: f.trouble,
	})
	if err != nil {
		return fmt.Errorf("starting the slice controller of %s: %w", node, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drivers = append(f.drivers, &simulated{node, controller})
	return nil
}

// rest stops the controllers.
func (f *fleet) rest(b *testing.B) {
	b.Helper()
	must(b, each(0, len(f.drivers), joining, func(i int) error {
		f.drivers[i].controller.Stop()
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

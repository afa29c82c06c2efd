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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/nadra-dev/nadra/test/lab"
)

// driven is how many nodes have a driver. More of them would take longer on this machine
// than all other measurements; further nodes have slices that nobody watches or changes.
const driven = 1_000

// Driven returns the number of nodes with a driver, for the document.
func (r *report) Driven() int { return driven }

// joining is how many drivers start at once; each waits a second for its list.
const joining = 200

// fleet has the simulated nodes. Each has a Node object and the library's controller that
// publishes for a driver, with a watch of its own. Its requests are those of the driver's
// account on the node. The nodes share connections.
type fleet struct {
	kube   kubernetes.Interface // the benchmark's own
	config *rest.Config
	log    *writeLog
	ctx    context.Context // of the controllers
	cancel context.CancelFunc

	nodes   int
	drivers []*simulated // of the first nodes

	mu       sync.Mutex // of drivers too, while they start
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
}

// join adds nodes up to that number, which publish an offer.
func (f *fleet) join(to int, o offer) error {
	var names []string
	for i := f.nodes; i < to; i++ {
		names = append(names, fmt.Sprintf("simulated-%05d", i))
	}
	f.nodes = to
	if err := each(names, 32, f.createNode); err != nil {
		return err
	}
	drivers := min(len(names), max(driven-len(f.drivers), 0))
	if err := each(names[drivers:], 32, func(node string) error { return f.createSlices(node, o) }); err != nil {
		return err
	}
	return each(names[:drivers], joining, func(node string) error { return f.start(node, o) })
}

// each calls do for all nodes, atOnce of them at a time.
func each(nodes []string, atOnce int, do func(node string) error) error {
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, node := range nodes {
		group.Go(func() error { return do(node) })
	}
	return group.Wait()
}

// createNode makes a node that is Ready and has room for everything.
func (f *fleet) createNode(name string) error {
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
	if _, err := f.kube.CoreV1().Nodes().Create(f.ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating node %s: %w", name, err)
	}
	return nil
}

// asDriver returns a client with the rights of the driver on a node.
func (f *fleet) asDriver(node string) (kubernetes.Interface, error) {
	return kubernetes.NewForConfigAndClient(f.config, &http.Client{
		Transport: transport.NewImpersonatingRoundTripper(transport.ImpersonationConfig{
			UserName: nadraAccount,
			Extra:    map[string][]string{"authentication.kubernetes.io/node-name": {node}},
		}, f.log),
	})
}

// start starts the library's controller as it publishes for a driver.
func (f *fleet) start(node string, o offer) error {
	kube, err := f.asDriver(node)
	if err != nil {
		return err
	}
	controller, err := resourceslice.StartController(f.ctx, resourceslice.Options{
		DriverName:   lab.DriverName,
		KubeClient:   kube,
		Owner:        &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: node},
		Resources:    o.on(node),
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

// createSlices creates the slices that the controller would create.
func (f *fleet) createSlices(node string, o offer) error {
	kube, err := f.asDriver(node)
	if err != nil {
		return err
	}
	for name, pool := range o.on(node).Pools {
		for i, slice := range pool.Slices {
			_, err := kube.ResourceV1().ResourceSlices().Create(f.ctx, &resourceapi.ResourceSlice{
				ObjectMeta: metav1.ObjectMeta{GenerateName: fmt.Sprintf("%05x-%s-%s-", i, lab.DriverName, node)},
				Spec: resourceapi.ResourceSliceSpec{
					Driver: lab.DriverName, NodeName: &node, Devices: slice.Devices,
					Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: int64(len(pool.Slices))},
				},
			}, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("creating a slice of %s: %w", node, err)
			}
		}
	}
	return nil
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
		b.Logf("%d errors that were tried again; the first is: %v", len(f.troubles), f.troubles[0])
	}
	f.troubles = nil
}

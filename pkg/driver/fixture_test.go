package driver

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadlisters "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/listers/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/events"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
	"github.com/nadra-dev/nadra/test/drivertest"
)

const (
	blueConf = drivertest.BlueConf
	redConf  = drivertest.RedConf
)

// nad returns a NetworkAttachmentDefinition.
func nad(name, config string) *nadv1.NetworkAttachmentDefinition { return drivertest.NAD(name, config) }

// nowhere reports that no namespace is the host's.
func nowhere(string) bool { return false }

// nadCache has the NADs of a test.
type nadCache struct{ cache.Indexer }

func newNADCache(t *testing.T, nads ...*nadv1.NetworkAttachmentDefinition) nadCache {
	t.Helper()
	c := nadCache{cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)}
	for _, n := range nads {
		if err := c.Add(n); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c nadCache) Lister() nadlisters.NetworkAttachmentDefinitionLister {
	return nadlisters.NewNetworkAttachmentDefinitionLister(c.Indexer)
}

func (c nadCache) Start(context.Context, func()) error { return nil }

// lan0 is a host with this one interface.
type lan0 struct{}

func (lan0) List() (map[string]offer.Link, error) {
	return map[string]offer.Link{"lan0": {}}, nil
}

func (lan0) Watch(ctx context.Context, _ func(), _ func(string)) error { <-ctx.Done(); return nil }

// setup changes what a test's driver is made from.
type setup struct {
	cfg     func(*Config)
	clients func(*Clients)
	env     func(*environment)
	// checkContainers makes Prepare look for containers without a gate.
	checkContainers bool
	// heldStatus leaves it to the test to write network-status. Otherwise the driver does.
	heldStatus bool
	// beside leaves the state directory to another driver.
	beside bool
	// loading leaves it to the test to close loaded.
	loading bool
}

// noReferences knows no container of a pod.
func noReferences(context.Context, attachment.PodRef, []*resourceapi.ResourceClaim) (*podReferences, error) {
	return &podReferences{}, nil
}

// fakeEvents returns a Recorder whose EventRecorder is a record.FakeRecorder, which keeps up to 100 Events.
func fakeEvents(t *testing.T) *events.Recorder {
	r := events.NewRecorder(t.Context(), "node-1")
	r.Shutdown()
	r.EventRecorder = record.NewFakeRecorder(100)
	return r
}

// noPluginDevices knows no device plugin.
func noPluginDevices(context.Context, attachment.PodRef) (map[string][]string, error) {
	return nil, nil
}

// newDriver returns a driver on a node with link lan0 and all plugins but "absent".
func newDriver(t *testing.T, nads ...*nadv1.NetworkAttachmentDefinition) *Driver {
	t.Helper()
	return newDriverWith(t, setup{}, nads...)
}

// newDriverWith returns such a driver with a setup. Pods of the node have been attached to its networks before.
func newDriverWith(t *testing.T, s setup, nads ...*nadv1.NetworkAttachmentDefinition) *Driver {
	t.Helper()
	store, _, err := drivertest.OpenStore(t.TempDir(), "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	k := drivertest.NewKernel()
	cfg := Config{
		NodeName: "node-1", HostRoot: t.TempDir(), CDIDir: t.TempDir(), KubeletPluginsDir: t.TempDir(),
		CNIBinDirs: []string{"/opt/cni/bin"}, NADConfDir: "/net.d", Copies: 1,
		HookBudget: time.Hour, AddTimeout: 30 * time.Second, DelTimeout: 10 * time.Second, Metrics: metrics.NewNode(),
	}
	pod, _ := objects()
	clients := Clients{Kube: fake.NewClientset(pod), NetworkStatus: storingAll(), Metadata: nodeClient(t)}
	if s.cfg != nil {
		s.cfg(&cfg)
	}
	if s.clients != nil {
		s.clients(&clients)
	}
	watch, err := newPodWatch(clients.Kube, cfg.NodeName)
	if err != nil {
		t.Fatal(err)
	}
	env := &environment{
		useImages: func() error { return nil },
		store:     store, plugins: k, netns: k, defaultNetwork: drivertest.CBR0, isHost: nowhere, pluginDevices: noPluginDevices,
		nads: newNADCache(t, nads...), links: lan0{}, events: fakeEvents(t),
		watch: watch, references: noReferences, drain: drainTime, registrationWait: registrationWait,
	}
	if s.checkContainers {
		env.references = watch.references
	}
	if s.env != nil {
		s.env(env)
	}
	d, err := wire(t.Context(), cfg, clients, env)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nads {
		d.jobs.proven.Add(networkIn{attachment.NetworkRef{Namespace: n.Namespace, Name: n.Name}, drivertest.Web.Namespace}, true)
	}
	if !s.beside {
		close(d.successor.taken)
	}
	d.owner.seen.Store(true)
	if err := d.watchPods(); err != nil {
		t.Fatal(err)
	}
	if !s.loading {
		close(d.loaded)
	}
	t.Cleanup(func() {
		d.claimStatus.ShutDown()
		d.networkStatus.ShutDown()
		d.attacher.PendingDELs.ShutDown()
		d.edits.queue.ShutDown()
		d.operations.Cancel(errDriverStop)
		d.background.Cancel(errDriverStop)
	})
	refresh(t, d)
	d.runtime.connected()
	if !s.heldStatus {
		writeStatus(t, d)
	}
	return d
}

// storingAll returns an API server that has every pod.
func storingAll() *fake.Clientset {
	kube := fake.NewClientset()
	kube.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, &corev1.Pod{}, nil })
	return kube
}

// writeStatus lets a driver write network-status until end is called, or the test ends.
func writeStatus(t *testing.T, d *Driver) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var writer sync.WaitGroup
	writer.Go(func() { d.networkStatus.Run(ctx, d.jobs.attachAgain) })
	end = func() {
		cancel()
		writer.Wait()
	}
	t.Cleanup(end)
	return end
}

// refresh makes a driver see the NADs as they are now.
func refresh(t *testing.T, d *Driver) {
	t.Helper()
	if err := d.networks.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// kernelOf returns the plugins of a driver.
func kernelOf(d *Driver) *drivertest.Kernel { return d.operations.Plugins.(*drivertest.Kernel) }

// newHooks returns hooks of a driver that wait as long as that.
func newHooks(d *Driver, budget time.Duration) *hooks {
	return &hooks{nriClient: d.nri, limit: func() time.Duration { return budget + attach.RollbackTime + replyTime }}
}

// regular returns a container that references the claims of a pod: a CDI device has brought it the gate.
func regular(d *Driver, podUID string) *nri.Container {
	records := d.store.ForPod(podUID)
	return &nri.Container{Hooks: &nri.Hooks{CreateRuntime: []*nri.Hook{d.cdi.ContainerGate(checkpoint.ClaimUIDs(records), records)}}}
}

// attachOnce attaches, and fails the test if a try is repeated.
func attachOnce(t *testing.T, d *Driver, s attachment.Sandbox) error {
	t.Helper()
	return locked(t, d, s.Pod, func(ctx context.Context) error {
		if err := d.attacher.Attach(ctx, s, drivertest.Once(t)); err != nil {
			return err
		}
		return d.store.MarkStatusStored(d.store.ForPod(s.Pod.UID))
	})
}

// locked runs do as an operation on a pod.
func locked(t *testing.T, d *Driver, pod attachment.PodRef, do func(context.Context) error) error {
	t.Helper()
	return d.operations.Do(t.Context(), operations.Operation{Pod: pod, Limit: time.Minute}, do)
}

// after lets time pass, and then waits until all goroutines wait.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// eventsOf returns the events that a driver has recorded.
func eventsOf(t *testing.T, d *Driver) []string {
	t.Helper()
	var out []string
	for {
		select {
		case e := <-d.events.EventRecorder.(*record.FakeRecorder).Events:
			out = append(out, e)
		default:
			slices.Sort(out)
			return out
		}
	}
}

// claim returns a claim that is allocated for pod web, with a result for each NAD, by the NADs' classes.
// Request i is called req<i>. The class of "" names no network.
func claim(name string, nads ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-uid")}}
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "web", UID: "web-uid"}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for i, n := range nads {
		request := fmt.Sprintf("req%d", i)
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: request})
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: request, Driver: "net.nadra.dev", Pool: "node-1/networks",
			Device:  "node-0-0",
			ShareID: ptr.To(types.UID(name + request)),
		})
		if n != "" {
			parametrize(c, resourceapi.AllocationConfigSourceClass, request, fmt.Sprintf(`"network":{"namespace":"default","name":%q}`, n))
		}
	}
	return c
}

// configure adds the claim's own parameters for a request.
func configure(c *resourceapi.ResourceClaim, request, parameters string) *resourceapi.ResourceClaim {
	return parametrize(c, resourceapi.AllocationConfigSourceClaim, request, parameters)
}

// parametrize adds parameters for a request to an allocated claim.
func parametrize(c *resourceapi.ResourceClaim, source resourceapi.AllocationConfigSource, request, parameters string) *resourceapi.ResourceClaim {
	c.Status.Allocation.Devices.Config = append(c.Status.Allocation.Devices.Config, resourceapi.DeviceAllocationConfiguration{
		Source: source, Requests: []string{request},
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver:     "net.nadra.dev",
			Parameters: runtime.RawExtension{Raw: []byte(`{"apiVersion":"nadra.dev/v1alpha1","kind":"AttachmentConfig",` + parameters + `}`)},
		}},
	})
	return c
}

// prepare prepares claims as the kubelet does.
func prepare(t *testing.T, d *Driver, claims ...*resourceapi.ResourceClaim) map[types.UID]kubeletplugin.PrepareResult {
	t.Helper()
	results, err := d.plugin.PrepareResourceClaims(t.Context(), claims)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != len(claims) {
		t.Errorf("%d results for %d claims", len(results), len(claims))
	}
	return results
}

// objects returns pod web, and a claim.
func objects() (*corev1.Pod, *resourceapi.ResourceClaim) {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-uid"}},
		&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "c-uid"}}
}

// sandboxOf converts NRI's pod on a node without Multus.
func sandboxOf(pod *nri.PodSandbox, isHost func(string) bool) attachment.Sandbox {
	return (&node{environment: &environment{isHost: isHost}}).sandboxOf(pod)
}

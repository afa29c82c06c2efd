package hwdevices

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	fakediscovery "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

func configMap(namespace, name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
}

func resourceList(name string) string {
	return `{"resourceList": [{"resourceName": "` + name + `", "selectors": {"vendors": ["8086"]}}]}`
}

// watched returns pool sources that were read, and a channel that receives their changes.
func watched(t *testing.T, sources Sources, clients Clients) (*PoolSources, chan struct{}) {
	t.Helper()
	changed := make(chan struct{}, 100)
	s := NewPoolSources(clients, "node-1", sources)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	t.Cleanup(func() { cancel(); group.Wait() })
	err := s.Start(ctx, func(do func() error) { group.Go(func() { _ = do() }) }, func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, changed
}

func poolNames(s *PoolSources) (names []string, problems string) {
	list, errs := s.List()
	for _, p := range list {
		names = append(names, p.ResourceName)
	}
	for _, err := range errs {
		problems += err.Error() + "\n"
	}
	return names, problems
}

// eventually waits until the sources name these pools.
func eventually(t *testing.T, s *PoolSources, changed chan struct{}, want ...string) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		names, problems := poolNames(s)
		if slices.Equal(names, want) {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("pools %v, want %v; problems %s", names, want, problems)
		}
	}
}

func TestConfigSources(t *testing.T) {
	kube := fake.NewClientset(
		configMap("kube-system", "sriovdp-config", map[string]string{"config.json": resourceList("a"), "node-2": "no JSON"}),
		configMap("sriov", "device-plugin-config", map[string]string{"node-1": resourceList("b"), "node-2": resourceList("c")}),
		configMap("sriov", "others", map[string]string{"node-2": resourceList("d")}),
		configMap("x", "keyed", map[string]string{"mine": resourceList("e"), "config.json": resourceList("f")}),
		configMap("x", "bad", map[string]string{"config.json": `{"resourceList": [{"resourceName": "a", "resourcePrefix": "intel.com", "selectors": {}}, {"resourceName": "g", "selectors": {"x": 1}}]}`}),
		configMap("kube-system", "rdma-devices", map[string]string{"config.json": `{"configList": [{"resourceName": "hca", "rdmaHcaMax": 3, "devices": ["ib0"]}]}`}),
	)
	s, changed := watched(t, Sources{OperatorPrefix: "openshift.io", Configs: []PoolConfig{
		{Namespace: "kube-system", Name: "sriovdp-config"},
		{Namespace: "sriov", Name: "device-plugin-config"},
		{Namespace: "sriov", Name: "others"},
		{Namespace: "x", Name: "keyed", Key: "mine", Prefix: "example.com"},
		{Namespace: "x", Name: "keyed", Key: "none"},
		{Namespace: "x", Name: "bad"},
		{Namespace: "kube-system", Name: "rdma-devices", Optional: true},
		{Namespace: "x", Name: "absent", Optional: true},
		{Namespace: "x", Name: "missing"},
	}}, Clients{Kube: kube})
	names, problems := poolNames(s)
	if diff := cmp.Diff([]string{"intel.com/a", "openshift.io/b", "example.com/e", "rdma/hca"}, names); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
	for _, want := range []string{
		"[PoolMissing] ConfigMap x/keyed: data[none] of --pool-config ",
		"[PoolMissing] ConfigMap x/missing of --pool-config ",
		"[PoolInvalid] ConfigMap x/bad: data[config.json].resourceList[1].selectors.x: ",
		"[PoolConflict] ConfigMap x/bad: data[config.json].resourceList[0]: resourceName intel.com/a ",
		" ConfigMap kube-system/sriovdp-config: data[config.json].resourceList[0]",
	} {
		if !strings.Contains(problems, want) {
			t.Errorf("the problems lack %q:\n%s", want, problems)
		}
	}
	if n := strings.Count(problems, "\n"); n != 4 {
		t.Errorf("%d problems, want 4:\n%s", n, problems)
	}
	if _, err := kube.CoreV1().ConfigMaps("x").Create(t.Context(), configMap("x", "absent", map[string]string{"config.json": resourceList("new")}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := kube.CoreV1().ConfigMaps("sriov").Delete(t.Context(), "device-plugin-config", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, s, changed, "intel.com/a", "example.com/e", "rdma/hca", "intel.com/new")
}

func TestPolicySource(t *testing.T) {
	policy := func(name, zone string, spec map[string]any) *unstructured.Unstructured {
		spec["nodeSelector"], spec["numVfs"], spec["nicSelector"] = map[string]any{"zone": zone}, int64(4), map[string]any{"vendor": "8086"}
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodePolicy",
			"metadata": map[string]any{"namespace": "sriov", "name": name}, "spec": spec,
		}}
	}
	kube := fake.NewClientset()
	kube.Discovery().(*fakediscovery.FakeDiscovery).Resources = []*metav1.APIResourceList{{GroupVersion: "sriovnetwork.openshift.io/v1"}}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	clients := Clients{
		Kube: kube,
		Metadata: metadatafake.NewSimpleMetadataClient(scheme, &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"zone": "a"}},
		}),
		Dynamic: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(),
			policy("here", "a", map[string]any{"resourceName": "one"}),
			policy("there", "b", map[string]any{"resourceName": "two"}),
			policy("bad", "a", map[string]any{"resourceName": "three", "colour": "red"})),
	}
	s, changed := watched(t, Sources{PolicyNamespace: "sriov", OperatorPrefix: "openshift.io"}, clients)
	eventually(t, s, changed, "openshift.io/one")
	if _, problems := poolNames(s); !strings.Contains(problems, "[PoolInvalid] SriovNetworkNodePolicy sriov/bad: spec.colour") {
		t.Errorf("problems %s", problems)
	}
}

// lister is a kubelet with one pod.
type lister struct {
	podresources.UnimplementedPodResourcesListerServer
}

func (lister) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	return &podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{{
		Namespace: "default", Name: "p",
		Containers: []*podresources.ContainerResources{{
			Devices: []*podresources.ContainerDevices{{ResourceName: "intel.com/sriov", DeviceIds: []string{"0000:3b:02.0", "mlx5_core.sf.4"}}},
			DynamicResources: []*podresources.DynamicResource{{ClaimName: "ours", ClaimResources: []*podresources.ClaimResource{
				{DriverName: "net.nadra.dev", PoolName: "node-1/pf-0000-3b-00-0", DeviceName: "pci-0000-3b-02-1"},
			}}},
		}},
	}}}, nil
}

// TestPluginDevicesOf checks which devices a pod has by the kubelet's answer.
func TestPluginDevicesOf(t *testing.T) {
	got, err := PluginDevicesOf(t.Context(), filepath.Join(t.TempDir(), "kubelet.sock"), "default", "p")
	if err != nil || len(got) != 0 {
		t.Errorf("without a socket: %v, %v", got, err)
	}
	devices := func(resource string, ids ...string) *podresources.ContainerResources {
		return &podresources.ContainerResources{Devices: []*podresources.ContainerDevices{{ResourceName: resource, DeviceIds: ids}}}
	}
	pod := func(name string, containers ...*podresources.ContainerResources) *podresources.PodResources {
		return &podresources.PodResources{Namespace: "default", Name: name, Containers: containers}
	}
	for name, c := range map[string]struct {
		pods []*podresources.PodResources
		want string
		err  string
	}{
		"none":               {pods: []*podresources.PodResources{pod("other", devices("a/b", "1"))}, want: "map[]"},
		"of all containers":  {pods: []*podresources.PodResources{pod("other", devices("a/b", "0")), pod("p", devices("a/b", "3", "2"), devices("a/b", "1"), devices("c/d", "2"))}, want: "map[a/b:[1 2 3] c/d:[2]]"},
		"by two containers":  {pods: []*podresources.PodResources{pod("p", devices("a/b", "1"), devices("a/b", "1"))}, want: "map[a/b:[1]]"},
		"two pods of a name": {pods: []*podresources.PodResources{pod("p", devices("a/b", "1")), pod("p")}, err: "pods default/p"},
	} {
		got, err := pluginDevices(&podresources.ListPodResourcesResponse{PodResources: c.pods}, "default", "p")
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) || err == nil && fmt.Sprint(got) != c.want {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestUsedByPlugins(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	if used, err := UsedByPlugins(t.Context(), socket); err != nil || len(used) != 0 {
		t.Errorf("without a socket: %v, %v", used, err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, lister{})
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(l) }()
	used, err := UsedByPlugins(t.Context(), socket)
	if diff := cmp.Diff(map[string]string{"0000:3b:02.0": "default/p", "mlx5_core.sf.4": "default/p"}, used); diff != "" || err != nil {
		t.Errorf("error %v, in use (-want +got):\n%s", err, diff)
	}
	server.Stop()
	<-ended
	if used, err := UsedByPlugins(t.Context(), t.TempDir()); err == nil {
		t.Errorf("from a directory: %v, %v", used, err)
	}
}

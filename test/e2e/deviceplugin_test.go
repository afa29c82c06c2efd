//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/lab"
)

// pluginResource is the resource of devicePlugin.
const pluginResource = "e2e.example.com/dev"

// TestPodWithoutAClaimGetsItsDevice checks that a network of a resource pool gets the device that a device
// plugin has given to a pod without a claim, and that a pod without such a device is refused.
func TestPodWithoutAClaimGetsItsDevice(t *testing.T) {
	f := ownedBlue(t, "plugins")
	plugin := f.devicePlugin("dev-a", "dev-b")
	f.Must(f.Apply(f.Ctx, `{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition,
metadata: {name: pooled, namespace: plugins, annotations: {k8s.v1.cni.cncf.io/resourceName: `+pluginResource+`}},
spec: {config: '`+ownConf+`'}}`))
	f.hasAllocatable(pluginResource, "2")

	f.annotated("web", "blue,pooled", func(p *corev1.Pod) {
		p.Spec.NodeName = f.node.Name()
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{pluginResource: resource.MustParse("1")}
	})
	pod, err := f.Ready(f.Ctx, f.NS, "web", time.Minute)
	f.Must(err)
	f.runsOn("web", "net2", "10.84.0.")
	given := plugin.given()
	if len(given) != 1 {
		t.Fatalf("the kubelet gave devices %q, want one", given)
	}
	record := f.sh("cat " + f.at.State + "/claims/" + string(pod.UID) + ".json")
	if count := strings.Count(record, `"deviceID":"`+given[0]+`"`); count == 0 {
		t.Errorf("the plugins did not get device %s: %s", given[0], record)
	}

	f.onNode("without", "pooled")
	f.Eventually(time.Minute, f.podEvent("without", lab.Code(reason.NoClaim), pluginResource, "no device of a device plugin"))
	f.hasNotRun("without")
}

// hasAllocatable waits until the node offers a resource.
func (f *fixture) hasAllocatable(name corev1.ResourceName, want string) {
	f.Helper()
	f.Eventually(time.Minute, func(ctx context.Context) error {
		node, err := f.Kube.CoreV1().Nodes().Get(ctx, f.node.Name(), metav1.GetOptions{})
		if got := node.Status.Allocatable[name]; err == nil && got.String() != want {
			err = fmt.Errorf("the node offers %s of %s, want %s", got.String(), name, want)
		}
		return err
	})
}

// devicePlugin runs a device plugin on the node for the duration of the test.
func (f *fixture) devicePlugin(devices ...string) *fakePlugin {
	f.Helper()
	outside, err := f.node.HostPath("/var/lib/kubelet/device-plugins")
	f.Must(err)
	folder, err := os.Open(outside)
	f.Must(err)
	f.Cleanup(func() { folder.Close() })
	short := fmt.Sprintf("/proc/self/fd/%d", folder.Fd()) // a socket's path is limited
	const endpoint = "e2e.sock"
	listener, err := net.Listen("unix", filepath.Join(short, endpoint))
	f.Must(err)
	server := grpc.NewServer()
	plugin := &fakePlugin{ended: make(chan struct{})}
	for _, id := range devices {
		plugin.devices = append(plugin.devices, &deviceplugin.Device{ID: id, Health: deviceplugin.Healthy})
	}
	deviceplugin.RegisterDevicePluginServer(server, plugin)
	go func() { _ = server.Serve(listener) }()
	f.Cleanup(func() { close(plugin.ended); server.Stop() })

	conn, err := grpc.NewClient("unix:"+filepath.Join(short, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	f.Must(err)
	defer conn.Close()
	_, err = deviceplugin.NewRegistrationClient(conn).Register(f.Ctx, &deviceplugin.RegisterRequest{
		Version: deviceplugin.Version, Endpoint: endpoint, ResourceName: pluginResource, Options: &deviceplugin.DevicePluginOptions{},
	})
	f.Must(err)
	return plugin
}

// fakePlugin is a device plugin whose devices are only names.
type fakePlugin struct {
	deviceplugin.UnimplementedDevicePluginServer
	devices []*deviceplugin.Device
	ended   chan struct{}

	mu        sync.Mutex
	allocated []string
}

// given returns the devices that the kubelet has allocated.
func (p *fakePlugin) given() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.allocated)
}

func (*fakePlugin) GetDevicePluginOptions(context.Context, *deviceplugin.Empty) (*deviceplugin.DevicePluginOptions, error) {
	return &deviceplugin.DevicePluginOptions{}, nil
}

func (p *fakePlugin) ListAndWatch(_ *deviceplugin.Empty, stream grpc.ServerStreamingServer[deviceplugin.ListAndWatchResponse]) error {
	if err := stream.Send(&deviceplugin.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	select {
	case <-p.ended:
	case <-stream.Context().Done():
	}
	return nil
}

func (p *fakePlugin) Allocate(_ context.Context, r *deviceplugin.AllocateRequest) (*deviceplugin.AllocateResponse, error) {
	out := &deviceplugin.AllocateResponse{}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range r.ContainerRequests {
		p.allocated = append(p.allocated, c.DevicesIds...)
		out.ContainerResponses = append(out.ContainerResponses, &deviceplugin.ContainerAllocateResponse{})
	}
	return out, nil
}

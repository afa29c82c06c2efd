// Command bare is a DRA driver that does nothing: it publishes shared devices, prepares
// every claim and gives containers nothing. What a pod with a claim for them costs is what
// claims cost by themselves. All of it is in main.go.
//
//	bare KUBECONFIG NODE DEVICE …
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"
)

const (
	driver = "bare.nadra.dev"
	// The kubelet's directories.
	pluginDir   = "/var/lib/kubelet/plugins/" + driver
	registryDir = "/var/lib/kubelet/plugins_registry"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("bare KUBECONFIG NODE DEVICE …: %q is not that", args)
	}
	config, err := clientcmd.BuildConfigFromFlags("", args[0])
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.UserAgent = "bare"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.QPS, config.Burst = 50, 100
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(pluginDir, 0o750); err != nil {
		return err
	}
	helper, err := kubeletplugin.Start(ctx, plugin{}, kubeletplugin.DriverName(driver), kubeletplugin.KubeClient(kube),
		kubeletplugin.NodeName(args[1]), kubeletplugin.PluginDataDirectoryPath(pluginDir),
		kubeletplugin.RegistrarDirectoryPath(registryDir), kubeletplugin.Serialize(false), kubeletplugin.HealthService(false))
	if err != nil {
		return fmt.Errorf("registering with the kubelet: %w", err)
	}
	defer helper.Stop()
	if err := helper.PublishResources(ctx, devices(args[1], args[2:])); err != nil {
		return fmt.Errorf("publishing the devices: %w", err)
	}
	<-ctx.Done()
	return nil
}

// devices returns shared devices with their name as an attribute.
func devices(node string, names []string) resourceslice.DriverResources {
	var slice resourceslice.Slice
	for _, name := range names {
		slice.Devices = append(slice.Devices, resourceapi.Device{
			Name: name, AllowMultipleAllocations: ptr.To(true),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"name": {StringValue: &name}},
		})
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: {Slices: []resourceslice.Slice{slice}}}}
}

// plugin prepares everything and does nothing.
type plugin struct{}

func (plugin) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	out := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		var result kubeletplugin.PrepareResult
		for _, r := range claim.Status.Allocation.Devices.Results {
			if r.Driver == driver {
				result.Devices = append(result.Devices, kubeletplugin.Device{
					Requests: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device, ShareID: r.ShareID,
				})
			}
		}
		out[claim.UID] = result
	}
	return out, nil
}

func (plugin) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	out := map[types.UID]error{}
	for _, claim := range claims {
		out[claim.UID] = nil
	}
	return out, nil
}

func (plugin) HandleError(_ context.Context, err error, msg string) {
	fmt.Fprintln(os.Stderr, "bare:", msg+":", err)
}

func (plugin) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

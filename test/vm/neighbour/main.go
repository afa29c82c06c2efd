// Command neighbour is the DRA driver of another vendor: devices that do nothing, each on a
// PCIe root or with string attributes that the caller names. Claims for a virtual function
// beside one of them show that the two drivers' attributes match, and networks use such
// devices. All of it is in main.go.
//
//	neighbour KUBECONFIG NODE NAME=PCIEROOT …
//	neighbour KUBECONFIG NODE NAME,ATTRIBUTE=VALUE,… …
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const driver = "neighbour.example.com"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "neighbour:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("neighbour KUBECONFIG NODE DEVICE …: %q is not that", args)
	}
	config, err := clientcmd.BuildConfigFromFlags("", args[0])
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	const dir = "/var/lib/kubelet/plugins/" + driver
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	helper, err := kubeletplugin.Start(ctx, plugin{}, kubeletplugin.DriverName(driver), kubeletplugin.KubeClient(kube),
		kubeletplugin.NodeName(args[1]), kubeletplugin.PluginDataDirectoryPath(dir),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join("/var/lib/kubelet", "plugins_registry")))
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

func devices(node string, described []string) resourceslice.DriverResources {
	var slice resourceslice.Slice
	for _, d := range described {
		name, rest, several := strings.Cut(d, ",")
		if !several {
			name, rest, _ = strings.Cut(d, "=")
			rest = "resource.kubernetes.io/pcieRoot=" + rest
		}
		attributes := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
		for a := range strings.SplitSeq(rest, ",") {
			key, value, _ := strings.Cut(a, "=")
			attributes[resourceapi.QualifiedName(key)] = resourceapi.DeviceAttribute{StringValue: &value}
		}
		slice.Devices = append(slice.Devices, resourceapi.Device{Name: name, Attributes: attributes})
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
				result.Devices = append(result.Devices, kubeletplugin.Device{Requests: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device})
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
	fmt.Fprintln(os.Stderr, "neighbour:", msg+":", err)
}

func (plugin) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

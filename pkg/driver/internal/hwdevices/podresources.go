package hwdevices

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const (
	// podResourcesLimit limits a request to the kubelet.
	podResourcesLimit = 5 * time.Second
	// podResourcesMessage is the kubelet's own limit for an answer, in bytes.
	podResourcesMessage = 16 << 20
)

// UsedByPlugins asks the kubelet for the devices of device plugins that pods have, and
// returns the pods by device ID. It returns none if the socket does not exist: then the
// kubelet has no device plugins.
func UsedByPlugins(ctx context.Context, socket string) (map[string]string, error) {
	answer, err := ask(ctx, socket)
	if err != nil {
		return nil, err
	}
	return deviceHolders(answer), nil
}

// PluginDevicesOf asks the kubelet for the devices of device plugins that a pod has, and returns
// their IDs by resource, in order. The kubelet gives a pod its devices before it starts the sandbox.
func PluginDevicesOf(ctx context.Context, socket, namespace, name string) (map[string][]string, error) {
	answer, err := ask(ctx, socket)
	if err != nil {
		return nil, err
	}
	return pluginDevices(answer, namespace, name)
}

// ask returns the kubelet's answer, or nil if the socket does not exist.
func ask(ctx context.Context, socket string) (*podresources.ListPodResourcesResponse, error) {
	if _, err := os.Stat(socket); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, podResourcesLimit)
	defer cancel()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(podResourcesMessage)))
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", socket, err)
	}
	defer func() { _ = conn.Close() }()
	answer, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking the kubelet on %s for the devices in use: %w", socket, err)
	}
	return answer, nil
}

// deviceHolders returns the pods that have devices of device plugins. Devices of claims, and
// so nadra's own, are in another list of the answer.
func deviceHolders(answer *podresources.ListPodResourcesResponse) map[string]string {
	out := map[string]string{}
	for _, pod := range answer.GetPodResources() {
		for _, container := range pod.GetContainers() {
			for _, devices := range container.GetDevices() {
				for _, id := range devices.GetDeviceIds() {
					out[id] = pod.GetNamespace() + "/" + pod.GetName()
				}
			}
		}
	}
	return out
}

// pluginDevices returns the devices of one pod. It returns an error if the kubelet lists two pods of
// the name, because their UIDs are not known.
func pluginDevices(answer *podresources.ListPodResourcesResponse, namespace, name string) (map[string][]string, error) {
	var found *podresources.PodResources
	for _, pod := range answer.GetPodResources() {
		if pod.GetNamespace() != namespace || pod.GetName() != name {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("the kubelet lists two pods %s/%s with devices: wait until one of them has ended", namespace, name)
		}
		found = pod
	}
	out := map[string][]string{}
	for _, container := range found.GetContainers() {
		for _, devices := range container.GetDevices() {
			out[devices.GetResourceName()] = append(out[devices.GetResourceName()], devices.GetDeviceIds()...)
		}
	}
	for resource, ids := range out {
		slices.Sort(ids)
		out[resource] = slices.Compact(ids)
	}
	return out, nil
}

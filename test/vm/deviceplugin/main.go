// Command deviceplugin is a device plugin of the kubelet that offers functions by their PCI addresses, as the
// SR-IOV device plugin does, and gives pods nothing besides.
//
//	deviceplugin RESOURCE ID …
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const endpoint = "lane.sock"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "deviceplugin:", err)
		stop()
		os.Exit(1)
	}
}

// run serves the kubelet until ctx ends.
func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("deviceplugin RESOURCE ID …: %q is not that", args)
	}
	socket := filepath.Join(deviceplugin.DevicePluginPath, endpoint)
	if err := os.RemoveAll(socket); err != nil {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listening for the kubelet: %w", err)
	}
	server := grpc.NewServer()
	deviceplugin.RegisterDevicePluginServer(server, &plugin{ids: args[1:]})
	context.AfterFunc(ctx, server.Stop)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("unix:"+deviceplugin.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = deviceplugin.NewRegistrationClient(conn).Register(ctx, &deviceplugin.RegisterRequest{
		Version: deviceplugin.Version, Endpoint: endpoint, ResourceName: args[0], Options: &deviceplugin.DevicePluginOptions{},
	})
	if err != nil {
		return fmt.Errorf("registering with the kubelet: %w", err)
	}
	return <-served
}

type plugin struct {
	deviceplugin.UnimplementedDevicePluginServer
	ids []string
}

// GetDevicePluginOptions returns no options.
func (*plugin) GetDevicePluginOptions(context.Context, *deviceplugin.Empty) (*deviceplugin.DevicePluginOptions, error) {
	return &deviceplugin.DevicePluginOptions{}, nil
}

// ListAndWatch lists the devices, which are always healthy.
func (p *plugin) ListAndWatch(_ *deviceplugin.Empty, stream grpc.ServerStreamingServer[deviceplugin.ListAndWatchResponse]) error {
	var devices []*deviceplugin.Device
	for _, id := range p.ids {
		devices = append(devices, &deviceplugin.Device{ID: id, Health: deviceplugin.Healthy})
	}
	if err := stream.Send(&deviceplugin.ListAndWatchResponse{Devices: devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Allocate gives the containers nothing besides the devices.
func (*plugin) Allocate(_ context.Context, r *deviceplugin.AllocateRequest) (*deviceplugin.AllocateResponse, error) {
	out := &deviceplugin.AllocateResponse{}
	for range r.ContainerRequests {
		out.ContainerResponses = append(out.ContainerResponses, &deviceplugin.ContainerAllocateResponse{})
	}
	return out, nil
}

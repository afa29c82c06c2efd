package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PodSandbox is the sandbox of a pod.
type PodSandbox struct {
	ID string
	// NetNS is the path of the network namespace on the node.
	NetNS string
}

// ErrNoSandbox means that a pod has no running sandbox.
var ErrNoSandbox = errors.New("the pod has no running sandbox")

// PodSandbox returns the running sandbox of a pod, as the runtime knows it.
func (n *Node) PodSandbox(ctx context.Context, podUID string) (PodSandbox, error) {
	var found PodSandbox
	err := n.askRuntime(func(runtime runtimeapi.RuntimeServiceClient) error {
		list, err := runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
			State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
			LabelSelector: map[string]string{"io.kubernetes.pod.uid": podUID},
		}})
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return ErrNoSandbox
		}
		if len(list.Items) > 1 {
			return fmt.Errorf("pod %s has %d running sandboxes", podUID, len(list.Items))
		}
		found.ID = list.Items[0].Id
		status, err := runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: found.ID, Verbose: true})
		if err != nil {
			return err
		}
		found.NetNS, err = netnsOf(status.Info["info"])
		return err
	})
	if err != nil {
		return PodSandbox{}, fmt.Errorf("looking for the sandbox of a pod on %s: %w", n.name, err)
	}
	return found, nil
}

// Sandboxes returns the IDs of the running sandboxes, as the runtime of the node knows
// them.
func (n *Node) Sandboxes(ctx context.Context) (ids []string, err error) {
	err = n.askRuntime(func(runtime runtimeapi.RuntimeServiceClient) error {
		list, err := runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
			State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
		}})
		for _, s := range list.GetItems() {
			ids = append(ids, s.Id)
		}
		return err
	})
	return ids, err
}

// netnsOf reads the path of the network namespace from the verbose status of a sandbox.
func netnsOf(info string) (string, error) {
	var sandbox struct {
		RuntimeSpec struct {
			Linux struct {
				Namespaces []struct{ Type, Path string }
			}
		}
	}
	if err := json.Unmarshal([]byte(info), &sandbox); err != nil {
		return "", err
	}
	for _, ns := range sandbox.RuntimeSpec.Linux.Namespaces {
		if ns.Type == "network" && ns.Path != "" {
			return ns.Path, nil
		}
	}
	return "", fmt.Errorf("the sandbox has no network namespace of its own")
}

func (n *Node) askRuntime(ask func(runtimeapi.RuntimeServiceClient) error) error {
	socket, err := n.HostPath(n.artifacts.runtime().socket())
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	return ask(runtimeapi.NewRuntimeServiceClient(conn))
}

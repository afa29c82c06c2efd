package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TimeSandbox makes the runtime create a sandbox that is unknown to the kubelet, and remove
// it. It returns how long the creation took.
func (n *Node) TimeSandbox(ctx context.Context, name string) (took time.Duration, err error) {
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name},
		Linux:    &runtimeapi.LinuxPodSandboxConfig{CgroupParent: string(n.group) + "/sandboxes"},
	}
	err = n.askRuntime(func(runtime runtimeapi.RuntimeServiceClient) error {
		// Connect before the measurement.
		if _, err := runtime.Version(ctx, &runtimeapi.VersionRequest{}); err != nil {
			return err
		}
		started := time.Now()
		made, err := runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
		took = time.Since(started)
		if err != nil {
			return err
		}
		// The kubelet, which does not know the sandbox, may stop it at the same time. Then one of the two
		// DELs finds the interface gone while it deletes it, and fails.
		stopErr := wait.PollUntilContextTimeout(ctx, time.Second, 10*time.Second, true, func(ctx context.Context) (bool, error) {
			_, err := runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: made.PodSandboxId})
			return err == nil, nil
		})
		_, err = runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: made.PodSandboxId})
		return errors.Join(stopErr, err)
	})
	if err != nil {
		return 0, fmt.Errorf("making a sandbox on %s: %w", n.name, err)
	}
	return took, nil
}

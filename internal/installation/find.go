package installation

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/kube"
)

// Find returns nadra's programs in a cluster. known is false if the user may not list their
// workloads.
func Find(ctx context.Context, client kubernetes.Interface) (s Settings, known bool, err error) {
	drivers, err := kube.EachReadable(ctx, kube.All, client.AppsV1().DaemonSets("").List, s.addDaemonSet)
	if err != nil {
		return s, false, fmt.Errorf("looking for nadra's driver: %w", err)
	}
	controllers, err := kube.EachReadable(ctx, kube.All, client.AppsV1().Deployments("").List, s.addDeployment)
	if err != nil {
		return s, false, fmt.Errorf("looking for nadra's controller: %w", err)
	}
	return s, drivers && controllers, nil
}

package installation

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/kube"
)

// Find returns nadra's programs in a cluster. known is false if the user may not list their
// workloads.
func Find(ctx context.Context, client kubernetes.Interface) (s Settings, known bool, err error) {
	drivers, err := kube.EachReadable(ctx, kube.All, client.AppsV1().DaemonSets("").List, func(d *appsv1.DaemonSet) { s.Add(d) })
	if err != nil {
		return s, false, fmt.Errorf("looking for nadra's driver: %w", err)
	}
	controllers, err := kube.EachReadable(ctx, kube.All, client.AppsV1().Deployments("").List, func(d *appsv1.Deployment) { s.Add(d) })
	if err != nil {
		return s, false, fmt.Errorf("looking for nadra's controller: %w", err)
	}
	return s, drivers && controllers, nil
}

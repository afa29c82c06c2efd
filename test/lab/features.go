package lab

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/desk/doctor"
)

// FeatureOn reports whether the API server, and the kubelets of the nodes that are named, have a
// feature gate on, by their metrics, so that tests can state what a version of Kubernetes lacks.
func FeatureOn(ctx context.Context, kube kubernetes.Interface, gate string, nodes ...string) (bool, error) {
	paths := []string{"/metrics"}
	for _, n := range nodes {
		paths = append(paths, "/api/v1/nodes/"+n+"/proxy/metrics")
	}
	for _, path := range paths {
		metrics, err := kube.Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
		if err != nil {
			return false, fmt.Errorf("reading %s for the feature gate %s: %w", path, gate, err)
		}
		if !doctor.FeatureGates(string(metrics))[gate] {
			return false, nil
		}
	}
	return true, nil
}

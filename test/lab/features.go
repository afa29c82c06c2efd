package lab

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/doctorread"
)

// FeatureOn reports whether the API server has a feature gate on, by its metrics, so that
// tests can state what a version of Kubernetes lacks.
func FeatureOn(ctx context.Context, kube kubernetes.Interface, gate string) (bool, error) {
	metrics, err := kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return false, fmt.Errorf("reading the API server's metrics for the feature gate %s: %w", gate, err)
	}
	return doctorread.FeatureGates(string(metrics))[gate], nil
}

package lab

import (
	"context"
	"fmt"
	"regexp"

	"k8s.io/client-go/kubernetes"
)

// FeatureOn reports whether the API server has a feature gate on, by its metrics, so that
// tests can state what a version of Kubernetes lacks.
func FeatureOn(ctx context.Context, kube kubernetes.Interface, gate string) (bool, error) {
	metrics, err := kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return false, fmt.Errorf("reading the API server's metrics for the feature gate %s: %w", gate, err)
	}
	found := regexp.MustCompile(`(?m)^kubernetes_feature_enabled\{name="` + gate + `",[^}]*\} (\d)`).FindSubmatch(metrics)
	return found != nil && string(found[1]) == "1", nil
}

package translate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// TestPodLimits checks that a pod with too many containers or claims, or with the parameters of a template beyond the limit, gets a
// finding and no edits.
func TestPodLimits(t *testing.T) {
	for name, c := range map[string]struct {
		limit int
		of    func(n int) (containers, claims, bytes int)
	}{
		"containers": {v1alpha1.MaxContainers, func(n int) (int, int, int) { return n, 1, 2 }},
		"claims":     {v1alpha1.MaxPodClaims, func(n int) (int, int, int) { return 1, n - 1, 2 }}, // and one for the network
		"parameters": {v1alpha1.MaxClaimConfigs, func(n int) (int, int, int) { return 1, 1, n }},
	} {
		for _, n := range []int{c.limit, c.limit + 1} {
			containers, claims, bytes := c.of(n)
			var others []string
			for i := range claims {
				others = append(others, fmt.Sprintf(`{"name":"a%d","resourceClaimTemplateName":"t"}`, i))
			}
			manifest := fmt.Sprintf(`{"metadata":{"name":"p","annotations":{"k8s.v1.cni.cncf.io/networks":"lan"}},"spec":{"resourceClaims":[%s],"containers":[%s]}}`,
				strings.Join(others, ","), strings.TrimSuffix(strings.Repeat(`{"name":"c"},`, containers), ","))
			template := &resourceapi.ResourceClaimTemplate{}
			template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "a", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu"}}}
			template.Spec.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{
				Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: v1alpha1.DriverName, Parameters: runtime.RawExtension{Raw: []byte(`"` + strings.Repeat("x", bytes-2) + `"`)}},
			}}}
			result, err := Pod([]byte(manifest), Options{Namespace: "shop", LookupTemplate: func(string, string) *resourceapi.ResourceClaimTemplate { return template }})
			if err != nil {
				t.Fatal(err)
			}
			exceeded := slices.ContainsFunc(result.Findings, func(f Finding) bool { return f.Code == LimitExceeded })
			if exceeded != (n > c.limit) || exceeded && len(result.Edits) > 0 {
				t.Errorf("%d %s: %d edits, %v", n, name, len(result.Edits), result.Findings)
			}
		}
	}
}

package slicewriter_test

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
	"github.com/nadra-dev/nadra/test/drivertest"
)

func TestAskFeatures(t *testing.T) {
	for name, c := range map[string]struct {
		drop func(*resourceapi.Device)
		want slicewriter.Features
	}{
		"all":            {nil, slicewriter.AllFeatures},
		"shared devices": {func(d *resourceapi.Device) { d.AllowMultipleAllocations = nil }, slicewriter.Features{Taints: true}},
		"taints":         {func(d *resourceapi.Device) { d.Taints = nil }, slicewriter.Features{SharedDevices: true}},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset()
			drivertest.AnswerDryRuns(kube, c.drop)
			got, err := slicewriter.AskFeatures(t.Context(), kube, "node-1")
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
			kept, err := kube.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
			if err != nil || len(kept.Items) != 0 {
				t.Errorf("%d slices were stored, error %v", len(kept.Items), err)
			}
		})
	}
}

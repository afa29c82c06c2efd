package doctor

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// TestNotFoundIsAGap checks that only kinds which a cluster may lack count as empty when the API server does not find them:
// without the others, doctor would say that nothing is there.
func TestNotFoundIsAGap(t *testing.T) {
	c, kube := world(append(thick(), node("node-1"))...)
	kube.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewGenericServerResponse(404, "list", a.GetResource().GroupResource(), "", "", 0, true)
	})
	caps, err := c.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{PartNodes, PartPods, PartMultus, PartComponents, PartWebhook} {
		if caps.gap(part, "") == nil {
			t.Errorf("part %q was not found, and doctor says that nothing is there", part)
		}
	}
	if caps.gap(PartSlices, "") != nil {
		t.Errorf("an API server without DRA is a gap: %v", caps.Gaps)
	}
}

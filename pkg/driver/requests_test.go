package driver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

// TestRequestsOfAPod checks that a pod with three networks of one claim sends two requests
// once it is attached: for the claim's status, and the pod's network-status.
func TestRequestsOfAPod(t *testing.T) {
	pod, c := objects()
	kube := fake.NewClientset(pod, c)
	d := newDriverWith(t, setup{heldStatus: true, clients: func(c *Clients) { c.Kube, c.NetworkStatus = kube, kube }}, nad("blue", blueConf))
	prepare(t, d, claim("c", "blue", "blue", "blue"))
	wanted := []string{"patch pods/status", "patch resourceclaims/status"}
	asked := func() []string {
		var out []string
		for _, a := range kube.Actions() {
			out = append(out, strings.TrimSuffix(a.GetVerb()+" "+a.GetResource().Resource+"/"+a.GetSubresource(), "/"))
		}
		slices.Sort(out)
		return out
	}
	h := newHooks(d, time.Minute)
	if err := h.RunPodSandbox(t.Context(), podNo(1)); err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "requests within the hook", nil, asked())
	written(t, d, func() error {
		if got := asked(); len(got) < len(wanted) {
			return fmt.Errorf("requests so far: %q", got)
		}
		return nil
	})
	drivertest.Same(t, "requests", wanted, asked())
}

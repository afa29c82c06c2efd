package driver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/nadra-dev/nadra/test/drivertest"
)

// TestRequestsOfAPod checks what is sent for an attached pod with three networks of one claim: network-status, for which
// the containers wait, and only after that the claim's status and one event.
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
		return out
	}
	h := newHooks(d, time.Minute)
	if err := h.RunPodSandbox(t.Context(), podNo(1)); err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "requests within the hook", nil, asked())
	drivertest.Same(t, "events before network-status is stored", nil, eventsOf(t, d))
	written(t, d, func() error {
		if got := asked(); len(got) < len(wanted) {
			return fmt.Errorf("requests so far: %q", got)
		}
		return nil
	})
	drivertest.Same(t, "requests", wanted, asked())
	add := func(name string) string { return "Add " + name + " [10.1.0.0/24] from default/blue" }
	drivertest.Same(t, "events", []string{"Normal AddedInterface " + add("net1") + "; " + add("net2") + "; " + add("net3")}, eventsOf(t, d))
}

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/lab"
)

// TestWaitingPodsAreRetriggered creates a pod while no driver is registered, so that
// the kubelet gives up on it for a while. The driver must make the kubelet retry as soon as
// it is registered.
func TestWaitingPodsAreRetriggered(t *testing.T) {
	f := setup(t, "retrigger")
	f.bridge("br-retrig")
	f.nad("blue", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-retrig","ipam":{"type":"host-local","subnet":"10.77.0.0/24"}}`)
	f.Must(f.Published(f.Ctx, "retrigger/blue"))
	running := f.start("running", lab.Want{Network: "blue"})
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "waiting", lab.Want{Network: "blue"})))

	driver := func(nodeSelector string) {
		f.Helper()
		f.Kubectl("-n", "nadra", "patch", "daemonset/nadra-node", "--type=merge", "-p", `{"spec":{"template":{"spec":{"nodeSelector":`+nodeSelector+`}}}}`)
	}
	driver(`{"nobody":"here"}`)
	back := func() { driver(`{"nobody":null}`) }
	f.Cleanup(func() {
		back()
		f.Kubectl("-n", "nadra", "rollout", "status", "daemonset/nadra-node", "--timeout=90s")
	})
	f.Kubectl("-n", "nadra", "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=nadra-node", "--timeout=60s")
	_, err := f.CreatePod(f.Ctx, lab.Pod(f.NS, "waiting", "waiting"))
	f.Must(err)
	f.Eventually(time.Minute, func(ctx context.Context) error {
		events := strings.Join(f.Events(ctx, f.NS, "waiting"), "\n")
		if !strings.Contains(events, "is not registered") {
			return fmt.Errorf("the kubelet has not given up yet: %s", events)
		}
		return nil
	})
	back()
	f.Kubectl("-n", "nadra", "rollout", "status", "daemonset/nadra-node", "--timeout=90s")
	// By itself the kubelet retries after a minute, or, by chance, in the moment at which the driver is
	// back: then the driver has no reason to make it retry.
	_, err = f.Ready(f.Ctx, f.NS, "waiting", 20*time.Second)
	f.Must(err)
	running, err = f.Ready(f.Ctx, f.NS, running.Name, time.Minute)
	f.Must(err)
	if at := running.Annotations["nadra.dev/retriggered"]; at != "" {
		t.Errorf("a pod that did not wait was retried at %s", at)
	}
	f.Must(f.DeletePod(f.Ctx, f.NS, "waiting"))
	f.Must(f.DeletePod(f.Ctx, f.NS, "running"))
}

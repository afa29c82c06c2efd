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

// A pod comes while no driver is registered: the kubelet gives up on it for a
// while, and is asked to try again as soon as there is a driver.
func TestPodsThatWaitForTheDriverAreWoken(t *testing.T) {
	f := setup(t, "woken")
	f.bridge("br-woken")
	f.nad("blue", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-woken","ipam":{"type":"host-local","subnet":"10.77.0.0/24"}}`)
	f.must(f.Published(f.ctx, "woken/blue"))
	running := f.start("running", lab.Want{Network: "blue"})
	f.must(f.CreateTemplate(f.ctx, lab.Template(f.ns, "waiting", lab.Want{Network: "blue"})))

	driver := func(nodeSelector string) {
		f.Helper()
		f.kubectl("-n", "nadra", "patch", "daemonset/nadra-node", "--type=merge", "-p", `{"spec":{"template":{"spec":{"nodeSelector":`+nodeSelector+`}}}}`)
	}
	driver(`{"nobody":"here"}`)
	back := func() { driver(`{"nobody":null}`) }
	f.Cleanup(func() {
		back()
		f.kubectl("-n", "nadra", "rollout", "status", "daemonset/nadra-node", "--timeout=90s")
	})
	f.kubectl("-n", "nadra", "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=nadra-node", "--timeout=60s")
	_, err := f.CreatePod(f.ctx, lab.Pod(f.ns, "waiting", "waiting"))
	f.must(err)
	f.eventually(time.Minute, func(ctx context.Context) error {
		events := strings.Join(f.Events(ctx, f.ns, "waiting"), "\n")
		if !strings.Contains(events, "is not registered") {
			return fmt.Errorf("the kubelet has not given up yet: %s", events)
		}
		return nil
	})
	back()
	pod, err := f.Ready(f.ctx, f.ns, "waiting", time.Minute)
	f.must(err)
	if pod.Annotations["nadra.dev/retriggered"] == "" {
		t.Errorf("the pod lacks the annotation nadra.dev/retriggered: %v", pod.Annotations)
	}
	running, err = f.Ready(f.ctx, f.ns, running.Name, time.Minute)
	f.must(err)
	if at := running.Annotations["nadra.dev/retriggered"]; at != "" {
		t.Errorf("a pod that waited for nothing was retriggered at %s", at)
	}
	f.must(f.DeletePod(f.ctx, f.ns, "waiting"))
	f.must(f.DeletePod(f.ctx, f.ns, "running"))
}

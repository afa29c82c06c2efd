//go:build e2e

package vm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/lab"
)

// Tests of what clusters do to nodes and pods, and what the build machine refuses: user
// namespaces, and another time.

// TestUserNamespaces gives a pod with a user namespace of its own (hostUsers: false) a
// network that a plugin configures by sysctl, and a virtual function.
func TestUserNamespaces(t *testing.T) {
	f := scenario(t, "users")
	f.pools(map[string][]string{"users": {"pf0#2"}}, nil)
	f.poolNAD("function", "intel.com/users", object{"type": "host-device", "ipam": f.hostLocal()})
	f.nad("plain", object{"type": "dummy", "ipam": static("10.44.0.1/24")}, object{"type": "tuning", "sysctl": object{"net.ipv4.conf.IFNAME.arp_filter": "1"}})
	f.class(translate.DeviceClass(attachment.NetworkRef{Namespace: f.ns, Name: "plain"}, ""))
	pod := lab.Pod(f.ns, "a", "a")
	pod.Spec.HostUsers = ptr.To(false)
	f.createPodOf(pod, "plain", "function")
	testCase(t, "a pod with a user namespace gets its networks", func(t *testing.T) {
		_, seen := f.ready("a")
		requireLink(t, seen, "net1", "dummy", "10.44.0.1/24")
		if link := seen.Link("net2"); link == nil || !link.Up || len(link.Addresses) != 1 {
			t.Errorf("net2 of the function: %+v", seen.Links)
		}
		if got := strings.Fields(f.in(t, "a", "cat /proc/sys/net/ipv4/conf/net1/arp_filter /proc/self/uid_map")); got[0] != "1" || got[2] == "0" {
			t.Errorf("net1's arp_filter is %s, and root is user %s of the node, which must be another than 0", got[0], got[2])
		}
	})
	testCase(t, "and leaves nothing", f.leavesNothing)
}

// TestClockJumps sets the node's clock an hour ahead and back. Pods must keep their networks,
// others must get theirs, and the driver must run on: nothing in it may count as an hour old.
func TestClockJumps(t *testing.T) {
	f := scenario(t, "clock")
	f.nad("plain", object{"type": "dummy", "ipam": f.hostLocal()})
	f.create("before", "plain")
	first, _ := f.ready("before")
	restarts := first.Status.ContainerStatuses[0].RestartCount // the gate may have held its container for too long on a slow machine
	driver, err := f.driverRestarts()
	f.must(err)
	t.Cleanup(func() { f.shell(fmt.Sprintf("busybox date -s @%d", time.Now().Unix())) })
	for _, jump := range []struct {
		name, pod string
		seconds   int
	}{{"an hour ahead", "ahead", 3600}, {"an hour back", "back", -3600}} {
		testCase(t, "after a jump "+jump.name+" pods keep and get their networks", func(t *testing.T) {
			f.shell(fmt.Sprintf("busybox date -s @$(($(busybox date +%%s) + %d))", jump.seconds))
			if _, err := f.Guest.Run(f.ctx, "busybox", "wget", "-q", "-O", "-", "http://127.0.0.1:9078/healthz"); err != nil {
				t.Errorf("the driver counts as dead: %v", err)
			}
			f.create(jump.pod, "plain")
			_, seen := f.ready(jump.pod)
			requireLink(t, seen, "plain", "dummy", "")
			before, seen := f.ready("before")
			requireLink(t, seen, "plain", "dummy", "")
			if n := before.Status.ContainerStatuses[0].RestartCount; n != restarts {
				t.Errorf("the pod from before was restarted by the jump: %d restarts, %d before", n, restarts)
			}
		})
	}
	testCase(t, "and leave nothing", f.leavesNothing)
	if now, err := f.driverRestarts(); err != nil || now != driver {
		t.Errorf("the driver was restarted: %v, %s before and %s now", err, driver, now)
	}
}

// driverRestarts returns the names of the driver's pods with their numbers of restarts.
func (f *fixture) driverRestarts() (string, error) {
	pods, err := f.Kube.CoreV1().Pods("nadra").List(f.ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	var out []string
	for _, p := range pods.Items {
		for _, c := range p.Status.ContainerStatuses {
			out = append(out, fmt.Sprintf("%s: %d restarts of %s", p.Name, c.RestartCount, c.Name))
		}
	}
	return strings.Join(out, ", "), nil
}

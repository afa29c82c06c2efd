//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/internal/desk/cli"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/lab"
)

// redConf is a second network of the tests of edits, on the bridge of the first.
const redConf = `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-own","ipam":{"type":"host-local","subnet":"10.84.0.0/24","rangeStart":"10.84.0.128"}}`

// TestNetworksOfRunningPods edits the networks annotation of running pods, one with a claim for its
// first networks and one without, and follows what they have.
func TestNetworksOfRunningPods(t *testing.T) {
	f := ownedBlue(t, "edits")
	f.nad("red", redConf)
	f.Must(f.Published(f.Ctx, "edits/blue", "edits/red"))
	f.onNode("plain", "")
	f.claimed("claimed", "blue,red")
	for name, start := range map[string][]string{"plain": nil, "claimed": {"blue@net1", "red@net2"}} {
		pod, err := f.Ready(f.Ctx, f.NS, name, time.Minute)
		f.Must(err)
		path := f.sandboxNetNS(pod)
		f.Eventually(10*time.Second, f.networksAre(name, path, start...))
		for _, tt := range []struct {
			annotation string
			has        []string
		}{
			{"blue", []string{"blue@net1"}},
			{"red@wan,blue", []string{"red@wan", "blue@net1"}},
			{`[{"name":"red","interface":"wan","mac":"02:00:00:00:00:07"},{"name":"blue"}]`, []string{"red@wan", "blue@net1"}},
			{"red@net1", []string{"red@net1"}},
			{"", nil},
			{"blue,red", []string{"blue@net1", "red@net2"}},
		} {
			f.edit(name, tt.annotation)
			f.Eventually(20*time.Second, f.networksAre(name, path, tt.has...))
		}
		row := regexp.MustCompile(`(?m)^` + name + ` +net2 +edits/red +Attached +10\.84\.0\.`)
		f.Eventually(time.Minute, f.printing(cli.CodeOK, row, "get", "attachments"))
		f.Eventually(30*time.Second, f.podEvent(name, reason.EventRemovedInterface+": ", "edits/red"))

		f.movesAndRestoresRoute(name, path)
		f.edit(name, "blue,late@late")
		f.Eventually(30*time.Second, f.podEvent(name, reason.EventFailedAddingInterface+": "+lab.Code(reason.NetworkNotFound), "edits/late"))
		f.Eventually(10*time.Second, f.networksAre(name, path, "blue@net1"))
		f.runsOn(name, "net1", "10.84.0.")
	}
	f.nad("late", redConf)
	for _, name := range []string{"plain", "claimed"} {
		pod, err := f.Kube.CoreV1().Pods(f.NS).Get(f.Ctx, name, metav1.GetOptions{})
		f.Must(err)
		f.Eventually(time.Minute, f.networksAre(name, f.sandboxNetNS(pod), "blue@net1", "late@late"))
		f.runsOn(name, "late", "10.84.0.")
	}

	back := f.withoutDriver()
	f.edit("plain", "red@lan")
	f.edit("claimed", "red,blue")
	back()
	for name, has := range map[string][]string{"plain": {"red@lan"}, "claimed": {"red@net2", "blue@net1"}} {
		pod, err := f.Ready(f.Ctx, f.NS, name, time.Minute)
		f.Must(err)
		f.Eventually(time.Minute, f.networksAre(name, f.sandboxNetNS(pod), has...))
	}
	f.newSandboxFollows("claimed", "red,blue,blue@more", "red@net2", "blue@net1", "blue@more")
	f.newSandboxFollows("claimed", "blue", "blue@net1")

	f.measureEdits("plain", 100)
	for _, name := range []string{"plain", "claimed"} {
		f.Must(f.DeletePod(f.Ctx, f.NS, name))
	}
	same(t, "addresses", "", f.addresses())
	if left := f.sh(`grep -l '"edits"' ` + f.at.State + "/claims/*.json " + f.at.State + "/pending-dels/*.json 2>/dev/null || true"); left != "" {
		t.Errorf("records are left: %s", left)
	}
}

// movesAndRestoresRoute gives a running pod a network with the default route and removes it again. The pod must have
// exactly the default routes of before.
func (f *fixture) movesAndRestoresRoute(name, path string) {
	f.Helper()
	before := f.defaultRoutes(name)
	f.edit(name, `[{"name":"blue"},{"name":"red","interface":"wan","default-route":["10.84.0.1"]}]`)
	f.Eventually(20*time.Second, f.networksAre(name, path, "blue@net1", "red@wan"))
	same(f.T, "default routes with the network", "default via 10.84.0.1 dev wan", f.defaultRoutes(name))
	f.edit(name, "blue")
	f.Eventually(20*time.Second, f.networksAre(name, path, "blue@net1"))
	same(f.T, "default routes without the network", before, f.defaultRoutes(name))
}

// claimed creates a pod with the annotation and a claim for its networks, as the webhook makes it.
func (f *fixture) claimed(name, networks string) {
	f.Helper()
	var wants []lab.Want
	for _, n := range strings.Split(networks, ",") {
		wants = append(wants, lab.Want{Network: n})
	}
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, name, wants...)))
	pod := lab.Pod(f.NS, name, name)
	pod.Annotations = map[string]string{nadv1.NetworkAttachmentAnnot: networks}
	_, err := f.CreatePod(f.Ctx, pod)
	f.Must(err)
}

// edit changes the networks annotation of a pod.
func (f *fixture) edit(name, networks string) {
	f.Helper()
	f.Must(f.tryEdit(f.Ctx, name, networks))
}

func (f *fixture) tryEdit(ctx context.Context, name, networks string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{nadv1.NetworkAttachmentAnnot: networks}}})
	if err != nil {
		return err
	}
	_, err = f.Kube.CoreV1().Pods(f.NS).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// sandboxNetNS returns the path, on the node, of the network namespace of a pod's running sandbox.
func (f *fixture) sandboxNetNS(pod *corev1.Pod) string {
	f.Helper()
	sandbox, err := f.node.PodSandbox(f.Ctx, string(pod.UID))
	f.Must(err)
	return sandbox.NetNS
}

// links returns the names of the interfaces in a network namespace without lo and eth0.
func (f *fixture) links(path string) (names []string, err error) {
	err = f.node.DoInNetNS(path, func() error {
		all, err := net.Interfaces()
		for _, i := range all {
			if i.Name != "lo" && i.Name != "eth0" {
				names = append(names, i.Name)
			}
		}
		return err
	})
	slices.Sort(names)
	return names, err
}

// networksAre returns a check that succeeds when a pod has exactly these networks, each as
// name@interface, and network-status lists them in this order.
func (f *fixture) networksAre(name, path string, networks ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		statuses, err := f.NetworkStatus(ctx, f.NS, name)
		if err != nil && len(networks) > 0 {
			return err
		}
		var listed, wanted []string
		for _, s := range statuses {
			if !s.Default {
				listed = append(listed, strings.TrimPrefix(s.Name, f.NS+"/")+"@"+s.Interface)
			}
		}
		for _, n := range networks {
			_, iface, _ := strings.Cut(n, "@")
			wanted = append(wanted, iface)
		}
		slices.Sort(wanted)
		links, err := f.links(path)
		if err != nil {
			return err
		}
		if !slices.Equal(listed, networks) || !slices.Equal(links, wanted) {
			return fmt.Errorf("pod %s: network-status lists %q, the namespace has %q, want %q", name, listed, links, networks)
		}
		return nil
	}
}

// newSandboxFollows edits a pod, ends its sandbox and checks that the next one has the same networks.
func (f *fixture) newSandboxFollows(name, annotation string, networks ...string) {
	f.Helper()
	pod, err := f.Ready(f.Ctx, f.NS, name, time.Minute)
	f.Must(err)
	f.edit(name, annotation)
	f.Eventually(30*time.Second, f.networksAre(name, f.sandboxNetNS(pod), networks...))
	// The runtime also lists the sandboxes and containers that have ended.
	before, err := f.node.PodSandbox(f.Ctx, string(pod.UID))
	f.Must(err)
	f.Must(f.node.Runtime().EndSandbox(f.Ctx, before.ID))
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		after, err := f.node.PodSandbox(ctx, string(pod.UID))
		if err != nil {
			return err
		}
		now, err := f.Kube.CoreV1().Pods(f.NS).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		// The new sandbox may have the address of the old one.
		if after.ID == before.ID || !lab.IsReady(now) || now.Status.ContainerStatuses[0].RestartCount == pod.Status.ContainerStatuses[0].RestartCount {
			return fmt.Errorf("pod %s has no new sandbox yet: before %s, after %s, %+v", name, before.ID, after.ID, now.Status.ContainerStatuses)
		}
		pod = now
		return nil
	})
	f.Eventually(30*time.Second, f.networksAre(name, f.sandboxNetNS(pod), networks...))
}

// measureEdits adds a network to a pod and removes it again, n times, and prints how long it takes until
// the pod's network namespace has what the annotation asks for.
func (f *fixture) measureEdits(name string, n int) {
	f.Helper()
	pod, err := f.Ready(f.Ctx, f.NS, name, time.Minute)
	f.Must(err)
	path := f.sandboxNetNS(pod)
	f.edit(name, "red@lan")
	f.Eventually(20*time.Second, f.networksAre(name, path, "red@lan"))
	var added, removed []time.Duration
	for i := range n {
		iface := fmt.Sprintf("m%d", i)
		added = append(added, f.timeEdit(name, path, "red@lan,blue@"+iface, func() bool {
			link, err := net.InterfaceByName(iface)
			if err != nil || link.Flags&net.FlagUp == 0 {
				return false
			}
			addrs, err := link.Addrs()
			return err == nil && len(addrs) > 0
		}))
		removed = append(removed, f.timeEdit(name, path, "red@lan", func() bool {
			_, err := net.InterfaceByName(iface)
			return err != nil
		}))
	}
	for what, took := range map[string][]time.Duration{"add": added, "remove": removed} {
		slices.Sort(took)
		at := func(percent int) time.Duration { return took[max((percent*n+99)/100, 1)-1].Round(time.Millisecond) }
		f.Logf("edits: %s n=%d p50=%s p90=%s p99=%s max=%s", what, n, at(50), at(90), at(99), at(100))
	}
}

// timeEdit edits a pod and returns the time until a condition holds in its network namespace.
func (f *fixture) timeEdit(name, path, networks string, done func() bool) time.Duration {
	f.Helper()
	started := time.Now()
	f.edit(name, networks)
	f.Must(f.node.DoInNetNS(path, func() error {
		for !done() {
			if time.Since(started) > 30*time.Second {
				return fmt.Errorf("pod %s does not have %q after 30 s", name, networks)
			}
			time.Sleep(time.Millisecond) // the poll of a measurement
		}
		return nil
	}))
	return time.Since(started)
}

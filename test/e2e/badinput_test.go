//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

const goodConf = `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-bad","ipam":{"type":"host-local","subnet":"10.66.0.0/24"}}`

// badCase is a pod that must not start, and what its error must say.
type badCase struct {
	name string
	// conf is the NAD's configuration when the pod is created; goodConf if empty.
	conf   string
	config map[string]any
	pod    func(*corev1.Pod)
	// breakIt, if set, is done after the device was published and before the
	// pod is created: what was allocated is no longer what Prepare finds.
	breakIt func(f *fixture)
	reason  string   // of the condition on the claim's device
	says    []string // in the condition and in one event of the pod
}

func badCases() []badCase {
	longName := "a-name-of-over-15"
	return []badCase{
		{
			name:   "unknown-field",
			config: map[string]any{"interfce": "net1"},
			reason: "PrepareFailed",
			says:   []string{"bad-unknown-field/", "interfce", "unknown field"},
		},
		{
			name:   "name-too-long",
			config: map[string]any{"interface": longName},
			reason: "PrepareFailed",
			says:   []string{"interface", longName, "15"},
		},
		{
			name:   "gateway-out-of-reach",
			config: map[string]any{"defaultRoute": []any{"10.99.99.1"}},
			reason: "AttachFailed",
			says:   []string{"bad-gateway-out-of-reach/blue as net1", "via 10.99.99.1", "network is unreachable", "correct the gateway"},
		},
		{
			name:   "name-taken-by-eth0",
			config: map[string]any{"interface": "eth0"},
			reason: "PrepareFailed",
			says:   []string{"bad-name-taken-by-eth0/blue", "eth0"},
		},
		{
			name:   "other-nad",
			config: map[string]any{"network": map[string]any{"name": "red"}},
			reason: "PrepareFailed",
			says:   []string{"bad-other-nad/red", "bad-other-nad/blue"},
		},
		{
			name:   "host-network",
			pod:    func(p *corev1.Pod) { p.Spec.HostNetwork = true },
			reason: "AttachFailed",
			says:   []string{"bad-host-network/blue", "net1", "host's network", "spec.hostNetwork"},
		},
		{
			name:   "plugin-fails",
			conf:   plugin("nadra-fails"),
			reason: "AttachFailed",
			says:   []string{"bad-plugin-fails/blue", "net1", "nadra-fails", "no free virtual function"},
		},
		{
			name:   "plugin-prints-garbage",
			conf:   plugin("nadra-garbage"),
			reason: "AttachFailed",
			says:   []string{"bad-plugin-prints-garbage/blue", "net1", "nadra-garbage", "not JSON", "Segmentation fault"},
		},
		{
			name:   "plugin-hangs",
			conf:   plugin("nadra-hangs"),
			reason: "AttachFailed",
			says:   []string{"bad-plugin-hangs/blue", "net1", "nadra-hangs", "ended after", "one ADD may take 30s"},
		},
		{
			name:    "nad-gone",
			breakIt: func(f *fixture) { f.must(f.deleteNAD("blue")) },
			reason:  "PrepareFailed",
			says:    []string{"bad-nad-gone/blue", "was deleted", "create it again"},
		},
		{
			name:    "config-not-json",
			breakIt: func(f *fixture) { f.must(f.updateNAD("blue", "{\"cniVersion\":\"1.0.0\",\n \"type\":\"bridge\",}")) },
			reason:  "PrepareFailed",
			says:    []string{"bad-config-not-json/blue", "spec.config", "line 2"},
		},
		{
			name:    "plugin-missing",
			breakIt: func(f *fixture) { f.must(f.updateNAD("blue", plugin("nadra-absent"))) },
			reason:  "PrepareFailed",
			says:    []string{"bad-plugin-missing/blue", "nadra-absent", "/opt/cni/bin", "install it"},
		},
		{
			name: "master-missing",
			breakIt: func(f *fixture) {
				f.must(f.updateNAD("blue", `{"cniVersion":"1.0.0","type":"macvlan","master":"lan9","ipam":{}}`))
			},
			reason: "PrepareFailed",
			says:   []string{"bad-master-missing/blue", "master", "lan9", "create it"},
		},
	}
}

func plugin(name string) string { return `{"cniVersion":"1.0.0","type":"` + name + `"}` }

// Bad input is refused in words, on the claim and on the pod, and leaves nothing.
func TestBadInput(t *testing.T) {
	installPlugin(t, "nadra-fails", `[ "$CNI_COMMAND" = DEL ] && exit 0; echo '{"cniVersion":"1.0.0","code":100,"msg":"no free virtual function"}'; exit 1`)
	installPlugin(t, "nadra-garbage", `echo "Segmentation fault"`)
	installPlugin(t, "nadra-hangs", `[ "$CNI_COMMAND" = ADD ] && exec sleep 600; exit 0`)
	for _, tt := range badCases() {
		t.Run(tt.name, func(t *testing.T) { testBadInput(t, tt) })
	}
}

func testBadInput(t *testing.T, tt badCase) {
	f := setup(t, "bad-"+tt.name)
	f.bridge("br-bad")
	if tt.conf == "" {
		tt.conf = goodConf
	}
	f.nad("blue", tt.conf)
	f.must(f.Published(f.ctx, f.ns+"/blue"))
	if tt.breakIt != nil {
		f.allocateFirst()
		tt.breakIt(f)
		f.eventually(time.Minute, func(ctx context.Context) error {
			if err := f.published(ctx, f.ns+"/blue"); err == nil {
				return fmt.Errorf("the slices still have the broken NAD %s/blue", f.ns)
			}
			return nil
		})
		f.release()
	} else {
		pod := lab.Pod(f.ns, "web", "web")
		if tt.pod != nil {
			tt.pod(pod)
		}
		f.must(f.CreateTemplate(f.ctx, lab.Template(f.ns, "web", lab.Want{Network: "blue", Config: tt.config})))
		_, err := f.CreatePod(f.ctx, pod)
		f.must(err)
	}
	f.refused(tt)
}

// allocateFirst creates the pod and has its claim allocated while the kubelet
// is halted.
func (f *fixture) allocateFirst() {
	f.Helper()
	f.must(f.node.Kill(f.ctx, "kubelet", unix.SIGSTOP))
	f.Cleanup(func() { f.must(f.node.Kill(f.ctx, "kubelet", unix.SIGCONT)) })
	f.must(f.CreateTemplate(f.ctx, lab.Template(f.ns, "web", lab.Want{Network: "blue"})))
	_, err := f.CreatePod(f.ctx, lab.Pod(f.ns, "web", "web"))
	f.must(err)
	f.eventually(2*time.Minute, func(ctx context.Context) error {
		p, err := f.Kube.CoreV1().Pods(f.ns).Get(ctx, "web", metav1.GetOptions{})
		if err == nil && p.Spec.NodeName == "" {
			err = fmt.Errorf("pod web is not scheduled")
		}
		return err
	})
}

func (f *fixture) release() { f.Helper(); f.must(f.node.Kill(f.ctx, "kubelet", unix.SIGCONT)) }

// refused checks the claim's condition, the pod's events and that no container ran.
func (f *fixture) refused(tt badCase) {
	f.Helper()
	pod, err := f.Kube.CoreV1().Pods(f.ns).Get(f.ctx, "web", metav1.GetOptions{})
	f.must(err)
	f.claimWhen(pod, func(c *resourceapi.ResourceClaim) error {
		if len(c.Status.Devices) != 1 || len(c.Status.Devices[0].Conditions) != 1 {
			return fmt.Errorf("claim status.devices %+v", c.Status.Devices)
		}
		cond := c.Status.Devices[0].Conditions[0]
		if cond.Status != metav1.ConditionFalse || cond.Reason != tt.reason {
			return fmt.Errorf("condition %s %s", cond.Status, cond.Reason)
		}
		return contains("the claim's condition", cond.Message, tt.says)
	})
	f.eventually(2*time.Minute, func(ctx context.Context) error {
		events := f.Events(ctx, f.ns, "web")
		if !slices.ContainsFunc(events, func(e string) bool { return contains("", e, tt.says) == nil }) {
			return fmt.Errorf("no event has all of %q:\n%s", tt.says, strings.Join(events, "\n"))
		}
		return nil
	})
	pod, err = f.Kube.CoreV1().Pods(f.ns).Get(f.ctx, "web", metav1.GetOptions{})
	f.must(err)
	for _, c := range pod.Status.ContainerStatuses {
		if lab.HasRun(c) {
			f.Errorf("container %s has run without its network: %+v", c.Name, c.State)
		}
	}
	f.must(f.DeletePod(f.ctx, f.ns, "web"))
}

func contains(what, text string, parts []string) error {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return fmt.Errorf("%s lacks %q: %s", what, p, text)
		}
	}
	return nil
}

// published succeeds when a slice has the NAD.
func (f *fixture) published(ctx context.Context, nad string) error {
	devices, err := f.Devices(ctx)
	if err != nil {
		return err
	}
	if _, ok := devices[nad]; !ok {
		return fmt.Errorf("no device for NAD %s", nad)
	}
	return nil
}

func (f *fixture) deleteNAD(name string) error {
	return f.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions(f.ns).Delete(f.ctx, name, metav1.DeleteOptions{})
}

func (f *fixture) updateNAD(name, config string) error {
	nads := f.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions(f.ns)
	nad, err := nads.Get(f.ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	nad.Spec.Config = config
	_, err = nads.Update(f.ctx, nad, metav1.UpdateOptions{})
	return err
}

// installPlugin puts a script beside the node's CNI plugins for the test.
func installPlugin(t *testing.T, name, script string) {
	t.Helper()
	node := theLab.Cluster.Nodes()[0]
	path := "/opt/cni/bin/" + name
	if err := lab.WriteHostFile(node, path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p, err := node.HostPath(path)
		if err == nil {
			err = os.Remove(p)
		}
		if err != nil {
			t.Error(err)
		}
	})
}

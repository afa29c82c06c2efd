//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

const goodConf = `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-bad","ipam":{"type":"host-local","subnet":"10.66.0.0/24"}}`

// badCase is a pod that must not start, and the error that it must get.
type badCase struct {
	name string
	// conf is the NAD's configuration when the pod is created; goodConf if empty.
	conf   string
	config map[string]any
	pod    func(*corev1.Pod)
	// breakIt, if set, runs after the scheduler has allocated the device and before the
	// kubelet prepares the claim.
	breakIt func(f *fixture)
	// condition is the reason of the Ready condition of the claim's device.
	condition string
	// code and parts are in the condition's message and in one Event of the pod.
	code  reason.Code
	parts []string
}

func badCases() []badCase {
	longName := "a-name-of-over-15"
	return []badCase{
		{
			name:      "unknown-field",
			config:    map[string]any{"interfce": "net1"},
			condition: "PrepareFailed",
			code:      reason.ClaimInvalid,
			parts:     []string{"bad-unknown-field/", `"interfce"`},
		},
		{
			name:      "name-too-long",
			config:    map[string]any{"interface": longName},
			condition: "PrepareFailed",
			code:      reason.ClaimInvalid,
			parts:     []string{"interface", longName, "15"},
		},
		{
			name:      "gateway-out-of-reach",
			config:    map[string]any{"defaultRoute": []any{"10.99.99.1"}},
			condition: "AttachFailed",
			code:      reason.GatewayUnreachable,
			parts:     []string{"bad-gateway-out-of-reach/blue", "net1", "10.99.99.1", "network is unreachable"},
		},
		{
			name:      "name-taken-by-eth0",
			config:    map[string]any{"interface": "eth0"},
			condition: "PrepareFailed",
			code:      reason.InterfaceConflict,
			parts:     []string{"bad-name-taken-by-eth0/blue", `"eth0"`},
		},
		{
			name:      "other-nad",
			config:    map[string]any{"network": map[string]any{"name": "red"}},
			condition: "PrepareFailed",
			code:      reason.NetworkNotFound,
			parts:     []string{"bad-other-nad/red"},
		},
		{
			name:      "host-network",
			pod:       func(p *corev1.Pod) { p.Spec.HostNetwork = true },
			condition: "AttachFailed",
			code:      reason.HostNetwork,
			parts:     []string{"bad-host-network/blue", "net1", "spec.hostNetwork"},
		},
		{
			name:      "plugin-fails",
			conf:      plugin("nadra-fails"),
			condition: "AttachFailed",
			code:      reason.PluginFailed,
			parts:     []string{"bad-plugin-fails/blue", "net1", "nadra-fails", "no free virtual function"},
		},
		{
			name:      "plugin-prints-garbage",
			conf:      plugin("nadra-garbage"),
			condition: "AttachFailed",
			code:      reason.PluginFailed,
			parts:     []string{"bad-plugin-prints-garbage/blue", "net1", "nadra-garbage", "Segmentation fault"},
		},
		{
			name:      "plugin-hangs",
			conf:      plugin("nadra-hangs"),
			condition: "AttachFailed",
			code:      reason.PluginTimeout,
			parts:     []string{"bad-plugin-hangs/blue", "net1", "nadra-hangs", "30s"},
		},
		{
			name:      "nad-gone",
			breakIt:   func(f *fixture) { f.Must(f.deleteNAD("blue")) },
			condition: "PrepareFailed",
			code:      reason.NetworkNotFound,
			parts:     []string{"bad-nad-gone/blue"},
		},
		{
			name:      "config-not-json",
			breakIt:   func(f *fixture) { f.Must(f.updateNAD("blue", "{\"cniVersion\":\"1.0.0\",\n \"type\":\"bridge\",}")) },
			condition: "PrepareFailed",
			code:      reason.NetworkInvalid,
			parts:     []string{"bad-config-not-json/blue", "spec.config", "line 2"},
		},
		{
			name:      "config-too-long",
			breakIt:   func(f *fixture) { f.Must(f.updateNAD("blue", goodConf+strings.Repeat(" ", v1alpha1.MaxNetworkConfig))) },
			condition: "PrepareFailed",
			code:      reason.LimitExceeded,
			parts:     []string{"bad-config-too-long/blue", "spec.config", fmt.Sprint(v1alpha1.MaxNetworkConfig)},
		},
		{
			name:      "too-many-addresses",
			config:    map[string]any{"ips": manyIPs()},
			condition: "PrepareFailed",
			code:      reason.LimitExceeded,
			parts:     []string{"ips", fmt.Sprint(v1alpha1.MaxIPs)},
		},
		{
			name:      "plugin-missing",
			breakIt:   func(f *fixture) { f.Must(f.updateNAD("blue", plugin("nadra-absent"))) },
			condition: "PrepareFailed",
			code:      reason.PluginMissing,
			parts:     []string{"bad-plugin-missing/blue", "nadra-absent", theLab.Cluster.Layout().CNIPrograms},
		},
		{
			name: "master-missing",
			breakIt: func(f *fixture) {
				f.Must(f.updateNAD("blue", `{"cniVersion":"1.0.0","type":"macvlan","master":"lan9","ipam":{}}`))
			},
			condition: "PrepareFailed",
			code:      reason.MasterMissing,
			parts:     []string{"bad-master-missing/blue", "master", `"lan9"`},
		},
	}
}

// manyIPs returns more addresses than a pod may request of a network.
func manyIPs() []any {
	var out []any
	for i := range v1alpha1.MaxIPs + 1 {
		out = append(out, fmt.Sprintf("10.66.0.%d", i+2))
	}
	return out
}

// beyondLimits has annotations beyond each limit, by the name of a pod. The first is as long as the API
// server allows.
var beyondLimits = map[string]string{
	"bytes":    strings.Repeat("a,", 128_000) + "a",
	"networks": strings.Repeat("blue,", v1alpha1.MaxNetworks) + "blue",
	"depth":    `[{"name":"blue","cni-args":{"k":` + strings.Repeat("[", v1alpha1.MaxDepth) + strings.Repeat("]", v1alpha1.MaxDepth) + `}}]`,
	"keys":     `[{"name":"blue"` + distinctKeys(v1alpha1.MaxRequestKeys) + `}]`,
	"request":  `[{"name":"blue","cni-args":{"k":"` + strings.Repeat("x", v1alpha1.MaxRequest) + `"}}]`,
	"device":   `[{"name":"blue","deviceID":"` + strings.Repeat("d", v1alpha1.MaxDeviceID+1) + `"}]`,
}

// distinctKeys returns n unknown keys of an element, after its first. A repeated key would count once.
func distinctKeys(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, `,"x%d":1`, i)
	}
	return out.String()
}

// TestBeyondLimitsOnTheNode checks that a node refuses pods that no webhook has seen and whose annotation
// is beyond a limit, that the driver goes on, and that a network with a long name is detached.
func TestBeyondLimitsOnTheNode(t *testing.T) {
	f := ownedBlue(t, "limits")
	before := f.driverPIDs()
	for name, annotation := range beyondLimits {
		f.onNode(name, annotation)
	}
	for name := range beyondLimits {
		f.Eventually(2*time.Minute, f.podEvent(name, lab.Code(reason.LimitExceeded)))
		f.hasNotRun(name)
	}
	f.onNode("good", "blue")
	_, err := f.Ready(f.Ctx, f.NS, "good", time.Minute)
	f.Must(err)
	f.runsOn("good", "net1", "10.84.0.")
	same(t, "the driver's processes", before, f.driverPIDs())

	long := strings.Repeat("n", 200)
	f.nad(long, strings.Replace(ownConf, "{", `{"name":"short",`, 1))
	f.Must(f.Published(f.Ctx, f.NS+"/"+long))
	f.onNode("long", `[{"name":"`+long+`"}]`)
	_, err = f.Ready(f.Ctx, f.NS, "long", time.Minute)
	f.Must(err)
	for _, name := range append(slices.Collect(maps.Keys(beyondLimits)), "good", "long") {
		f.Must(f.DeletePod(f.Ctx, f.NS, name))
	}
	f.Eventually(time.Minute, func(context.Context) error {
		if pending := f.sh("ls " + f.at.State + "/pending-dels"); pending != "" {
			return fmt.Errorf("DELs are pending: %s", pending)
		}
		return nil
	})
	same(t, "addresses", "", f.addresses())
}

func plugin(name string) string { return `{"cniVersion":"1.0.0","type":"` + name + `"}` }

// TestBadInput creates pods that cannot get their network. Each must get an error with its
// code on the claim and in an Event, and must leave nothing behind.
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
	f.Must(f.Published(f.Ctx, f.NS+"/blue"))
	if tt.breakIt != nil {
		f.allocateFirst()
		tt.breakIt(f)
		f.Eventually(time.Minute, func(ctx context.Context) error {
			if err := f.published(ctx, f.NS+"/blue"); err == nil {
				return fmt.Errorf("the slices still have the broken NAD %s/blue", f.NS)
			}
			return nil
		})
		f.release()
	} else {
		pod := lab.Pod(f.NS, "web", "web")
		if tt.pod != nil {
			tt.pod(pod)
		}
		f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "web", lab.Want{Network: "blue", Config: tt.config})))
		_, err := f.CreatePod(f.Ctx, pod)
		f.Must(err)
	}
	f.refused(tt)
}

// allocateFirst halts the kubelet, creates the pod and waits until its claim is allocated.
func (f *fixture) allocateFirst() {
	f.Helper()
	f.Must(f.node.Kill(f.Ctx, "kubelet", unix.SIGSTOP))
	f.Cleanup(func() { f.Must(f.node.Kill(f.Ctx, "kubelet", unix.SIGCONT)) })
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "web", lab.Want{Network: "blue"})))
	_, err := f.CreatePod(f.Ctx, lab.Pod(f.NS, "web", "web"))
	f.Must(err)
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		p, err := f.Kube.CoreV1().Pods(f.NS).Get(ctx, "web", metav1.GetOptions{})
		if err == nil && p.Spec.NodeName == "" {
			err = fmt.Errorf("pod web is not scheduled")
		}
		return err
	})
}

func (f *fixture) release() { f.Helper(); f.Must(f.node.Kill(f.Ctx, "kubelet", unix.SIGCONT)) }

// wants returns the texts that the condition and the Event must contain.
func (tt badCase) wants() []string { return append([]string{lab.Code(tt.code)}, tt.parts...) }

// refused waits for the error in the claim's condition and the pod's Events, and checks
// that no container has run.
func (f *fixture) refused(tt badCase) {
	f.Helper()
	pod, err := f.Kube.CoreV1().Pods(f.NS).Get(f.Ctx, "web", metav1.GetOptions{})
	f.Must(err)
	f.claimWhen(pod, func(c *resourceapi.ResourceClaim) error {
		if len(c.Status.Devices) != 1 || len(c.Status.Devices[0].Conditions) != 1 {
			return fmt.Errorf("claim status.devices %+v", c.Status.Devices)
		}
		cond := c.Status.Devices[0].Conditions[0]
		if cond.Status != metav1.ConditionFalse || cond.Reason != tt.condition {
			return fmt.Errorf("condition Ready is %s %s, want False %s", cond.Status, cond.Reason, tt.condition)
		}
		return contains("the claim's condition", cond.Message, tt.wants())
	})
	f.Eventually(2*time.Minute, f.podEvent("web", tt.wants()...))
	pod, err = f.Kube.CoreV1().Pods(f.NS).Get(f.Ctx, "web", metav1.GetOptions{})
	f.Must(err)
	for _, c := range pod.Status.ContainerStatuses {
		if lab.HasRun(c) {
			f.Errorf("container %s has run without its network: %+v", c.Name, c.State)
		}
	}
	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))
}

// contains returns an error that names the first part that the text lacks.
func contains(what, text string, parts []string) error {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return fmt.Errorf("%s lacks %q: %s", what, p, text)
		}
	}
	return nil
}

// published returns an error unless a slice has the NAD.
func (f *fixture) published(ctx context.Context, nad string) error {
	devices, err := f.Devices(ctx)
	if err != nil {
		return err
	}
	if _, ok := devices[lab.NetworkID(nad)]; !ok {
		return fmt.Errorf("no device lists NAD %s", nad)
	}
	return nil
}

func (f *fixture) deleteNAD(name string) error {
	return f.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions(f.NS).Delete(f.Ctx, name, metav1.DeleteOptions{})
}

func (f *fixture) updateNAD(name, config string) error {
	nads := f.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions(f.NS)
	nad, err := nads.Get(f.Ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	nad.Spec.Config = config
	_, err = nads.Update(f.Ctx, nad, metav1.UpdateOptions{})
	return err
}

// installPlugin adds a script to the node's CNI plugins for the duration of the test.
func installPlugin(t *testing.T, name, script string) {
	t.Helper()
	node := theLab.Cluster.Nodes()[0]
	path := theLab.Cluster.Layout().CNIPrograms + "/" + name
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

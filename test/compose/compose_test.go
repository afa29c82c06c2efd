//go:build e2e

package compose

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	caseLimit = 5 * time.Minute
	waitLimit = 90 * time.Second
)

// networks are the NADs of each case, without the address range.
var networks = map[string]string{
	"whole": `"type":"host-device"`,
	"lan":   `"type":"macvlan"`,
	"lan2":  `"type":"macvlan"`,
	"inner": `"type":"macvlan","linkInContainer":true`,
}

// fixture is a case with a namespace of its own.
type fixture struct {
	lab.Fixture
	before lab.Snapshot
}

func setup(t *testing.T, namespace string) *fixture {
	t.Helper()
	cases.Add(1)
	ctx, cancel := context.WithTimeout(interrupted, caseLimit)
	t.Cleanup(cancel)
	f := &fixture{Fixture: lab.Fixture{Lab: theLab, T: t, Ctx: ctx, NS: namespace}}
	f.Must(f.CreateNamespace(ctx, namespace))
	for name, plugin := range networks {
		f.Must(f.CreateNAD(ctx, namespace, name, fmt.Sprintf(`{"cniVersion":"1.0.0",%s,"ipam":{"type":"host-local","subnet":"10.88.0.0/24"}}`, plugin)))
	}
	f.Kubectl("annotate", "network-attachment-definitions", "--all", attachment.DeviceFromAnnotation+"=required")
	f.Must(f.Published(ctx, namespace+"/whole", namespace+"/lan", namespace+"/lan2", namespace+"/inner"))
	for _, nic := range []string{leaverNIC, moverNIC} { // a case that has failed may have lost it
		if _, err := f.node().Exec(ctx, "ip", "link", "show", nic); err != nil {
			f.Must(lab.MakeLink(ctx, f.node(), nic))
		}
	}
	var err error
	f.before, err = lab.TakeSnapshot(f.node())
	f.Must(err)
	t.Cleanup(f.cleanUp)
	return f
}

// cleanUp deletes the case's pods, and counts what is left: an interface that is not back on the node, and what
// attachments create.
func (f *fixture) cleanUp() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.Ctx), waitLimit)
	defer cancel()
	f.Ctx = ctx
	if f.Failed() {
		f.Log(f.Kubectl("get", "pods,resourceclaims,events", "-o", "wide"))
	}
	f.Kubectl("delete", "pods", "--all", "--timeout=60s")
	err := lab.Eventually(ctx, waitLimit, func(ctx context.Context) error {
		now, err := lab.TakeSnapshot(f.node())
		if err != nil {
			return err
		}
		if added := append(now.Added(f.before), f.before.Added(now)...); len(added) > 0 {
			return fmt.Errorf("left, or not back: %s", strings.Join(added, ", "))
		}
		return nil
	})
	if err != nil {
		left.Add(1)
		f.Error(err)
	}
	f.Kubectl("delete", "namespace", f.NS, "--wait=false")
	if !f.Failed() {
		passed.Add(1)
	}
}

// create creates a pod whose claim requests a device of a driver, which may have no name, and networks that run on it.
func (f *fixture) create(pod, driver string, named bool, from string, nads ...string) *corev1.Pod {
	f.Helper()
	var wants []lab.Want
	for _, nad := range nads {
		wants = append(wants, lab.Want{Network: nad, Config: map[string]any{"deviceFrom": from}})
	}
	template := lab.Template(f.NS, pod, wants...)
	not := "!"
	if named {
		not = ""
	}
	template.Spec.Spec.Devices.Requests = append(template.Spec.Spec.Devices.Requests, resourceapi.DeviceRequest{
		Name: "nic", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: driver, Selectors: []resourceapi.DeviceSelector{
			{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("%s(%q in device.attributes && 'ifName' in device.attributes[%q])", not, driver, driver)}},
		}},
	})
	f.Must(f.CreateTemplate(f.Ctx, template))
	out, err := f.CreatePod(f.Ctx, lab.Pod(f.NS, pod, pod))
	f.Must(err)
	return out
}

// has checks that a Ready pod has interfaces, each with an address, and how they are listed.
func (f *fixture) has(pod, listed string, interfaces ...string) {
	f.Helper()
	if _, err := f.Ready(f.Ctx, f.NS, pod, waitLimit); err != nil {
		f.Fatal(err)
	}
	for _, name := range interfaces {
		out, err := f.Exec(f.Ctx, f.NS, pod, "ip", "addr", "show", name)
		if err != nil || !strings.Contains(out, "10.88.0.") || !strings.Contains(out, listed) {
			f.Errorf("interface %s of pod %s (%v), want %s and an address:\n%s", name, pod, err, listed, out)
		}
	}
}

// refused waits until an event of a pod has a code and texts, and checks that no container of it has run.
func (f *fixture) refused(pod string, code reason.Code, texts ...string) {
	f.Helper()
	f.Eventually(waitLimit, func(ctx context.Context) error {
		events := f.Events(ctx, f.NS, pod)
		if slices.ContainsFunc(events, func(e string) bool {
			return strings.Contains(e, lab.Code(code)) && !slices.ContainsFunc(texts, func(t string) bool { return !strings.Contains(e, t) })
		}) {
			return nil
		}
		return fmt.Errorf("no event has %s and %q: %s", code, texts, strings.Join(events, "; "))
	})
	p, err := f.Kube.CoreV1().Pods(f.NS).Get(f.Ctx, pod, metav1.GetOptions{})
	f.Must(err)
	if slices.ContainsFunc(p.Status.ContainerStatuses, lab.HasRun) {
		f.Errorf("a container of pod %s has run: %+v", pod, p.Status.ContainerStatuses)
	}
}

// TestInterfaceOfTheHost checks host-device on an interface that the other driver names, and that it is back afterwards
// and serves the next pod.
func TestInterfaceOfTheHost(t *testing.T) {
	f := setup(t, "whole")
	for _, pod := range []string{"first", "second"} {
		f.create(pod, leaver, true, "nic", "whole")
		f.has(pod, "net1@", "net1")
		f.Must(f.DeletePod(f.Ctx, f.NS, pod))
	}
}

// TestMasterOfTheHost checks two networks on one interface that stays on the host.
func TestMasterOfTheHost(t *testing.T) {
	f := setup(t, "lan")
	f.create("web", leaver, true, "nic", "lan", "lan2")
	f.has("web", "@", "net1", "net2")
}

// TestInterfaceInThePod checks a network on an interface that the other driver moves into the pod after nadra's hook.
func TestInterfaceInThePod(t *testing.T) {
	f := setup(t, "inner")
	f.create("web", mover, true, "nic", "inner")
	f.has("web", "net1@"+moverNIC, "net1")
	if out, err := f.Exec(f.Ctx, f.NS, "web", "ip", "link", "show", moverNIC); err != nil {
		f.Errorf("the interface itself is not in the pod: %v\n%s", err, out)
	}
}

// TestBadInput checks what is refused, and that nothing of it is left.
func TestBadInput(t *testing.T) {
	f := setup(t, "bad")
	f.create("unnamed", leaver, true, "disk", "whole")
	f.refused("unnamed", reason.ClaimInvalid, "disk", "nic")
	f.Must(f.DeletePod(f.Ctx, f.NS, "unnamed"))

	f.create("itself", leaver, true, "net1", "whole")
	f.refused("itself", reason.ClaimInvalid, "net1")
	f.Must(f.DeletePod(f.Ctx, f.NS, "itself"))

	f.create("attributes", leaver, false, "nic", "whole")
	f.refused("attributes", reason.DeviceMismatch, "nameless", leaver, "bad/whole")
	f.Must(f.DeletePod(f.Ctx, f.NS, "attributes"))

	f.create("twice", leaver, true, "nic", "whole", "lan")
	f.refused("twice", reason.DeviceMismatch, leaverNIC, leaver)
	f.Must(f.DeletePod(f.Ctx, f.NS, "twice"))

	f.create("without", leaver, true, "", "lan")
	f.refused("without", reason.DeviceMismatch, "bad/lan", attachment.DeviceFromAnnotation)
	f.Must(f.DeletePod(f.Ctx, f.NS, "without"))

	f.create("again", early, true, "nic", "whole")
	f.refused("again", reason.PluginFailed, earlyNIC, early, "bad/whole")
}

func (f *fixture) node() *cluster.Node { return f.Cluster.Node(1) }

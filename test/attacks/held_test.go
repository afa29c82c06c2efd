//go:build e2e

package attacks

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestAttackForeignNetwork tries to get another network than the claim's class is for, a plugin or an
// argument that no NAD names, and a start by a forged network-status.
func TestAttackForeignNetwork(t *testing.T) {
	a := setup(t, "held")
	a.Must(a.CreateNAD(a.Ctx, a.NS, "other", bridged("br-held2", `{}`)))
	a.Must(a.CreateNAD(a.Ctx, a.NS, "slow", lateBridge("br-held3", "slow")))
	a.Must(a.Published(a.Ctx, "held/other", "held/slow"))

	a.try("a claim of one network's class names another", func(a *attempt) {
		template := lab.Template(a.NS, "cheat", lab.Want{Network: "n", Config: map[string]any{"network": map[string]any{"namespace": a.NS, "name": "other"}}})
		exactly := template.Spec.Spec.Devices.Requests[0].Exactly
		exactly.DeviceClassName = attachment.DeviceClassName(attachment.NetworkRef{Namespace: a.NS, Name: "n"})
		exactly.Selectors = nil
		_, err := a.tenant.ResourceV1().ResourceClaimTemplates(a.NS).Create(a.Ctx, template, metav1.CreateOptions{})
		if err != nil {
			a.refused(err, "the template")
			return
		}
		a.neverRuns("cheat")
	})
	for name, annotation := range map[string]string{
		"a path as interface":            `[{"name":"n","interface":"../../x"}]`,
		"a path as network":              `../../etc/n`,
		"arguments in the MAC":           `[{"name":"n","mac":"02:00:00:00:00:01;K8S_POD_NAMESPACE=kube-system"}]`,
		"arguments in an address":        `[{"name":"n","ips":["10.0.0.1/8;IgnoreUnknown=1"]}]`,
		"arguments in the GUID":          `[{"name":"n","infiniband-guid":"00:00:00:00:00:00:00:01;A=B"}]`,
		"a newline in the network":       `[{"name":"n\nm"}]`,
		"the interface of the pod's own": `[{"name":"n","interface":"eth0"}]`,
	} {
		a.try(name, func(a *attempt) {
			_, err := a.tenant.CoreV1().Pods(a.NS).Create(a.Ctx, a.pod("evil", annotation), metav1.CreateOptions{})
			a.refused(err, "a pod with %s", annotation)
		})
	}
	for name, kind := range map[string]string{"outside": "../../../../bin/sh", "absolute": "/bin/sh"} {
		a.try("a NAD of a type with a path, "+name, func(a *attempt) {
			a.Must(a.CreateNAD(a.Ctx, a.NS, name, fmt.Sprintf(`{"cniVersion":"1.0.0","type":%q}`, kind)))
			p := a.pod(name, name)
			p.Spec.NodeName = a.node.Name()
			_, err := a.tenant.CoreV1().Pods(a.NS).Create(a.Ctx, p, metav1.CreateOptions{})
			if err != nil {
				a.refused(err, "a pod on the NAD")
				return
			}
			a.told(name)
		})
	}
	a.try("a forged network-status does not start containers", func(a *attempt) {
		p := a.pod("forged", "slow")
		p.Annotations[nadv1.NetworkStatusAnnot] = `[{"name":"held/slow","interface":"net1","ips":["10.1.1.1"]}]`
		_, err := a.tenant.CoreV1().Pods(a.NS).Create(a.Ctx, p, metav1.CreateOptions{})
		if err != nil {
			a.refused(err, "a pod with network-status")
			return
		}
		a.runs(p.Name)
	})
	a.try("a tenant writes slices and classes", func(a *attempt) {
		_, err := a.tenant.ResourceV1().ResourceSlices().Create(a.Ctx, a.slice("tenants", lab.DriverName, a.node.Name()), metav1.CreateOptions{})
		a.refused(err, "creating a slice")
		_, err = a.tenant.ResourceV1().DeviceClasses().Create(a.Ctx, &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "n.held.nad.nadra.dev"}}, metav1.CreateOptions{})
		a.refused(err, "creating a class")
	})
}

// neverRuns creates a pod with the claim template of its name, and waits until an event says why it does
// not run.
func (a *attempt) neverRuns(name string) {
	a.Helper()
	_, err := a.tenant.CoreV1().Pods(a.NS).Create(a.Ctx, lab.Pod(a.NS, name, name), metav1.CreateOptions{})
	if err != nil {
		a.refused(err, "pod %s", name)
		return
	}
	a.told(name)
}

// told waits until an Event of a pod has a code, and checks that the pod does not run.
func (a *attempt) told(pod string) {
	a.Helper()
	a.Eventually(time.Minute, func(ctx context.Context) error {
		events := strings.Join(a.Events(ctx, a.NS, pod), "\n")
		if reason.In(events) == "" {
			return fmt.Errorf("no Event of pod %s has a code: %.1000s", pod, events)
		}
		a.Logf("%.500s", events)
		return nil
	})
	p, err := a.Kube.CoreV1().Pods(a.NS).Get(a.Ctx, pod, metav1.GetOptions{})
	a.Must(err)
	for _, s := range p.Status.ContainerStatuses {
		if lab.HasRun(s) {
			a.harmed("pod %s has run", pod)
		}
	}
}

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestNetworkIDs plays a tenant who has found a name whose network has the ID of another tenant's network with
// two addresses. Pods of neither network get the other's devices, so that the range is not allocated too often,
// whoever has created the network first. A DeviceClass that selects the wrong device attaches nothing.
func TestNetworkIDs(t *testing.T) {
	const (
		theirs = "net866933"
		tiny   = `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-ids","ipam":{"type":"host-local","ranges":[[{"subnet":"10.72.0.0/24","rangeStart":"10.72.0.10","rangeEnd":"10.72.0.11"}]]}}`
		wide   = `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-ids","ipam":{}}`
	)
	f := setup(t, "ids-victim")
	f.bridge("br-ids")
	victim, evil := attachment.NetworkRef{Namespace: f.NS, Name: theirs}, attachment.NetworkRef{Namespace: "team-evil", Name: "n3ui"}
	if attachment.NetworkIDOf(victim) != attachment.NetworkIDOf(evil) {
		t.Fatal("the IDs differ; the test needs equal ones")
	}
	f.Must(f.CreateNamespace(f.Ctx, evil.Namespace))
	t.Cleanup(func() { f.Kubectl("delete", "namespace", evil.Namespace) })
	t.Cleanup(func() { f.Must(f.RemoveController(f.Ctx)) })
	f.Must(f.InstallController(f.Ctx))
	f.Kubectl("label", "namespace", f.NS, "nadra.dev/owner=nadra")

	f.nad(theirs, tiny)
	f.Must(f.Published(f.Ctx, victim.String()))
	f.later(theirs) // creation times are in seconds
	f.Must(f.CreateNAD(f.Ctx, evil.Namespace, evil.Name, wide))
	f.listed(victim, attachment.NetworkIDOf(victim))
	f.listed(evil, attachment.LongNetworkIDOf(evil))
	f.Eventually(time.Minute, func(context.Context) error {
		return contains("the events of the later network", f.Kubectl("-n", evil.Namespace, "get", "events"), []string{reason.EventNetworkIdentifierTaken, victim.String()})
	})

	wrong := translate.DeviceClass(evil, "")
	wrong.Name = "wrong.example.com"
	_, err := f.Kube.ResourceV1().DeviceClasses().Create(f.Ctx, wrong, metav1.CreateOptions{})
	f.Must(err)
	t.Cleanup(func() { f.Kubectl("delete", "deviceclass", wrong.Name) })
	template := lab.Template(f.NS, "web", lab.Want{Network: theirs})
	template.Spec.Spec.Devices.Config = nil
	template.Spec.Spec.Devices.Requests[0].Exactly.DeviceClassName = wrong.Name
	template.Spec.Spec.Devices.Requests[0].Exactly.Selectors = nil
	f.Must(f.CreateTemplate(f.Ctx, template))
	_, err = f.CreatePod(f.Ctx, lab.Pod(f.NS, "web", "web"))
	f.Must(err)
	f.refused(badCase{condition: "PrepareFailed", code: reason.DeviceMismatch, parts: []string{victim.String(), evil.String()}})

	f.onlyTwoRun(theirs, evil)
	f.Must(f.deleteNAD(theirs))
	f.later(evil.Name)
	f.nad(theirs, tiny)
	f.listed(evil, attachment.NetworkIDOf(evil))
	f.listed(victim, attachment.LongNetworkIDOf(victim))
	f.onlyTwoRun(theirs, evil)
	class, err := f.Kube.ResourceV1().DeviceClasses().Get(f.Ctx, attachment.DeviceClassName(evil), metav1.GetOptions{})
	f.Must(err)
	if class.Generation != 2 {
		t.Errorf("class %s was rewritten %d times, want once", class.Name, class.Generation-1)
	}
}

// later waits until objects have a later creation time than any that exists.
func (f *fixture) later(what string) {
	f.Helper()
	created := metav1.Now().Truncate(time.Second)
	f.Eventually(5*time.Second, func(context.Context) error {
		if !time.Now().Truncate(time.Second).After(created) {
			return fmt.Errorf("it is still the second of %s", what)
		}
		return nil
	})
}

// listed waits until a device lists a network by an ID, and the network's DeviceClass selects by it.
func (f *fixture) listed(network attachment.NetworkRef, id attachment.NetworkID) {
	f.Helper()
	f.Eventually(time.Minute, func(ctx context.Context) error {
		devices, err := f.Devices(ctx)
		if err != nil {
			return err
		}
		class, err := f.Kube.ResourceV1().DeviceClasses().Get(ctx, attachment.DeviceClassName(network), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if selector := class.Spec.Selectors[0].CEL.Expression; len(devices[id]) != 1 || selector != id.Selector() {
			return fmt.Errorf("%d devices list network %s as %s, its class selects %s", len(devices[id]), network, id, selector)
		}
		return nil
	})
}

// onlyTwoRun checks that two of three pods get the two addresses of a network, while the third waits for the
// scheduler, and that a pod of the other network takes none of them. It deletes the pods.
func (f *fixture) onlyTwoRun(tiny string, other attachment.NetworkRef) {
	f.Helper()
	names := []string{"other", "one", "two", "three"}
	for _, name := range names {
		networks := tiny
		if name == "other" {
			networks = other.String()
		}
		_, err := f.CreatePod(f.Ctx, asking(f.NS, name, networks))
		f.Must(err)
	}
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		var ready, unscheduled []string
		for _, name := range names {
			p, err := f.Kube.CoreV1().Pods(f.NS).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if lab.IsReady(p) {
				ready = append(ready, name)
			}
			if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
			}) {
				unscheduled = append(unscheduled, name)
			}
		}
		if len(ready) != 3 || !slices.Contains(ready, "other") || len(unscheduled) != 1 {
			return fmt.Errorf("ready are %s, waiting for the scheduler %s; want other and two more, and one", strings.Join(ready, ", "), strings.Join(unscheduled, ", "))
		}
		return nil
	})
	for _, name := range names {
		f.Must(f.DeletePod(f.Ctx, f.NS, name))
	}
}

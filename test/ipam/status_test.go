//go:build e2e

package ipam

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/lab"
)

// refusal is a policy that refuses the driver's writes of pods' status in one
// namespace.
const refusal = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME}
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAME}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [pods, pods/status]}]
  matchConditions: [{name: driver, expression: "request.userInfo.username == 'DRIVER'"}]
  validations: [{expression: "false", message: "the webhook is away"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME, validationActions: [Deny]}
`

// refuseStatus makes the API server refuse the driver's writes of pods' status in the
// namespace, and waits until it does. allow ends that.
func (f *fixture) refuseStatus() (allow func()) {
	f.Helper()
	policy := strings.NewReplacer("NAME", f.NS, "DRIVER", lab.DriverAccount).Replace(refusal)
	f.Must(f.Apply(f.Ctx, policy))
	f.Cleanup(func() {
		if err := f.Delete(f.Ctx, policy); err != nil {
			f.Errorf("deleting the policy: %v", err)
		}
	})
	// The kubelet rejects the pod, so it is only there to be written to. nadra's own policy admits the write, which is one of the
	// driver of the pod's node; which of two policies that deny a request is named is not defined.
	node := f.Cluster.Node(1).Name()
	f.ApplyYAML("apiVersion: v1\nkind: Pod\nmetadata: {name: probe}\nspec: {containers: [{name: main, image: 'localhost/test:1', imagePullPolicy: Never}], nodeSelector: {none: none}, nodeName: " + node + "}")
	driver := f.AsDriver(node)
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		_, err := driver.CoreV1().Pods(f.NS).Patch(ctx, "probe", types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/network-status":"[]"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
		switch {
		case err == nil:
			return errors.New("the policy does not hold yet")
		case !strings.Contains(err.Error(), "the webhook is away"):
			return err
		}
		return nil
	})
	return func() {
		f.Helper()
		_, err := f.Cluster.Kubectl(f.Ctx, "delete", "validatingadmissionpolicybinding", f.NS)
		f.Must(err)
	}
}

// allocates waits until the pools have an address for an interface of a pod, and returns
// it.
func (f *fixture) allocates(pod, iface string) (address netip.Addr) {
	f.Helper()
	f.Eventually(time.Minute, func(ctx context.Context) (err error) {
		address, err = f.given(ctx, pod, iface)
		if err == nil && !address.IsValid() {
			err = fmt.Errorf("no pool has an address for %s of pod %s", iface, pod)
		}
		return err
	})
	return address
}

// slowChain holds the second of two networks in its chain, when both have their addresses already,
// and runs the reconciler. The first network is in network-status by then, and keeps its address. The
// second one loses its address, and must not keep it in the pod.
func slowChain(t *testing.T) {
	installPlugin(t, "held", held)
	for _, n := range theLab.Cluster.Nodes() {
		if err := lab.WriteHostFile(n, heldBy, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	release := func() {
		for _, n := range theLab.Cluster.Nodes() {
			path, err := n.HostPath(heldBy)
			if err == nil {
				err = os.RemoveAll(path)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	f := setup(t, "wa-slow", inRange("first", "10.164.0.0/24")+inRange("second", "10.164.1.0/24", `{"type":"held"}`))
	t.Cleanup(release) // before the pod is deleted
	f.pod("two", "first,second")
	f.allocates("two", "net2")
	kept := f.allocates("two", "net1")
	f.Eventually(time.Minute, func(ctx context.Context) error {
		status, err := f.NetworkStatus(ctx, f.NS, "two")
		if err == nil && !slices.ContainsFunc(status, func(s nadv1.NetworkStatus) bool { return slices.Contains(s.IPs, kept.String()) }) {
			err = fmt.Errorf("network-status has no %s: %+v", kept, status)
		}
		return err
	})
	t.Logf("freed by the reconciler: %v", f.reconcile())
	for iface, has := range map[string]bool{"net1": true, "net2": false} {
		address, err := f.given(f.Ctx, "two", iface)
		f.Must(err)
		if address.IsValid() != has {
			t.Errorf("the pool gives %s to %s after the reconciler's run, want an address: %t", address, iface, has)
		}
	}
	if started, _ := f.checker.lives(); started > 0 {
		t.Errorf("%d containers have started before the second network was attached", started)
	}
	release()
	p := f.ready("two")
	for _, iface := range []string{"net1", "net2"} {
		given, err := f.given(f.Ctx, "two", iface)
		f.Must(err)
		if has := f.address(p, iface); has != given {
			t.Errorf("%s has %s, and the pool gives it %s", iface, has, given)
		}
	}
}

// statusRefused lets the API server refuse network-status while the reconciler
// runs. No container may start meanwhile, and when writes are allowed again no two
// pods may have the same address.
func statusRefused(t *testing.T) {
	f := setup(t, "wa-refused", inRange("refused", "10.163.0.0/24"))
	allow := f.refuseStatus()
	for _, name := range []string{"early", "late"} {
		f.pod(name, "refused")
		f.allocates(name, "net1")
		f.Eventually(time.Minute, func(ctx context.Context) error {
			if events := strings.Join(f.Events(ctx, f.NS, name), "\n"); !strings.Contains(events, reason.EventNetworkStatusLate) {
				return fmt.Errorf("no Event reports that pod %s waits for its network-status: %s", name, events)
			}
			return nil
		})
		// The reconciler sees a pending pod without the address in its status.
		t.Logf("freed by the reconciler: %v", f.reconcile())
	}
	if started, _ := f.checker.lives(); started > 0 {
		t.Errorf("%d containers have started, without a network-status of their pods", started)
	}
	allow()
	early, late := f.ready("early"), f.ready("late")
	if a, b := f.address(early, "net1"), f.address(late, "net1"); a == b {
		t.Errorf("pods early and late both have %s", a)
	}
}

// checkerFindsDuplicates gives the address of one pod to another by hand. The checker must report
// that both have it, and that no pool gives it to the second.
func checkerFindsDuplicates(t *testing.T) {
	f := setup(t, "wa-selfcheck", inRange("selfcheck", "10.164.0.0/24"))
	f.counted = nil
	f.pod("first", "selfcheck")
	f.pod("second", "selfcheck")
	address, second := f.address(f.ready("first"), "net1"), f.ready("second")
	if duplicates, lost := f.checker.findings(); len(duplicates)+len(lost) > 0 {
		t.Fatalf("before, the checker has found the duplicates %q and the lost addresses %q", duplicates, lost)
	}
	sandbox, err := f.NodeOf(second).PodSandbox(f.Ctx, string(second.UID))
	f.Must(err)
	_, err = f.NodeOf(second).Exec(f.Ctx, "nsenter", "--net="+sandbox.NetNS, "ip", "addr", "add", address.String()+"/24", "dev", "net1")
	f.Must(err)
	f.Eventually(2*time.Minute, func(context.Context) error {
		duplicates, lost := f.checker.findings()
		if len(duplicates) != 1 || len(lost) != 1 {
			return fmt.Errorf("the checker has found the duplicates %q and the lost addresses %q, want %s in both", duplicates, lost, address)
		}
		t.Logf("found: %q %q", duplicates, lost)
		return nil
	})
}

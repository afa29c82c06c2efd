//go:build e2e

package kubevirt

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	// caseLimit is how long a case may take, and waitLimit how long each of its waits. virt-controller
	// looks for machines to migrate every few seconds and gives a node up to 15 s for an edit.
	caseLimit = 6 * time.Minute
	waitLimit = 2 * time.Minute
)

// fixture is a case with a namespace of its own.
type fixture struct {
	lab.Fixture
	// names has the machines that the case has made.
	names []string
}

// setup creates a namespace with networks, given as pairs of name and configuration. At the end the case must have
// left nothing on the nodes.
func setup(t *testing.T, namespace string, networks ...string) *fixture {
	t.Helper()
	cases.Add(1)
	ctx, cancel := context.WithTimeout(interrupted, caseLimit)
	t.Cleanup(cancel)
	f := &fixture{Fixture: lab.Fixture{Lab: theLab, T: t, Ctx: ctx, NS: namespace}}
	f.Must(f.CreateNamespace(ctx, namespace))
	f.Must(f.Label(ctx, "namespace/"+namespace, api.OwnerNadra))
	var nads []string
	for i := 0; i < len(networks); i += 2 {
		f.Must(f.CreateNAD(ctx, namespace, networks[i], networks[i+1]))
		nads = append(nads, namespace+"/"+networks[i])
	}
	t.Cleanup(f.cleanUp)
	f.Must(f.Published(ctx, nads...))
	return f
}

// macvlan is a network without addresses, as bridge bindings want it.
const macvlan = `{"cniVersion": "1.0.0", "type": "macvlan", "master": "` + master + `"}`

// cleanUp removes the case's machines and checks that nadra keeps nothing of them.
func (f *fixture) cleanUp() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.Ctx), 2*time.Minute)
	defer cancel()
	f.Ctx = ctx
	if f.Failed() {
		f.logState()
	}
	for _, name := range f.names {
		f.remove(name)
	}
	err := lab.Eventually(ctx, time.Minute, func(ctx context.Context) error {
		for _, n := range f.Cluster.Nodes() {
			out, err := n.Exec(ctx, "sh", "-c", "grep -ls '\""+f.NS+"\"' "+n.Layout().State+"/claims/* || true")
			if err != nil {
				return err
			}
			if left := strings.TrimSpace(string(out)); left != "" {
				return fmt.Errorf("nadra keeps on %s: %s", n.Name(), left)
			}
		}
		return nil
	})
	if err != nil {
		f.Error(err)
	}
	if _, err := f.Cluster.Kubectl(ctx, "delete", "namespace", f.NS, "--wait=false"); err != nil {
		f.Error(err)
	}
	if !f.Failed() {
		passed.Add(1)
	}
}

// remove deletes a machine and waits until it is gone with its launcher pods.
func (f *fixture) remove(name string) {
	f.Helper()
	err := user.Resource(machines).Namespace(f.NS).Delete(f.Ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		f.Error(err)
		return
	}
	f.ended(name)
	f.Eventually(waitLimit, func(ctx context.Context) error {
		switch _, err := user.Resource(machines).Namespace(f.NS).Get(ctx, name, metav1.GetOptions{}); {
		case err == nil:
			return fmt.Errorf("machine %s is still there", name)
		case !apierrors.IsNotFound(err):
			return err
		}
		if pods := f.launchers(name, ""); len(pods) > 0 {
			return fmt.Errorf("machine %s still has launcher pods %v", name, pods)
		}
		return nil
	})
}

// logState prints what a person needs after a failure.
func (f *fixture) logState() {
	for _, args := range [][]string{
		{"-n", f.NS, "get", "vm,vmi,pods,vmim,resourceclaims", "-o", "wide"},
		{"-n", f.NS, "get", "events"},
		{"-n", f.NS, "get", "pods", "-o", "yaml"},
		{"-n", "kubevirt", "logs", "deployment/virt-controller", "--tail=40"},
	} {
		out, _ := f.Cluster.Kubectl(f.Ctx, args...)
		f.Logf("kubectl %s\n%s", strings.Join(args, " "), out)
	}
}

// nic is an interface of a machine with its network.
type nic struct {
	name, network string
	// binding is bridge unless it is set.
	binding string
	mac     string
	primary bool
	// claim and request name the network of a claim, in place of network.
	claim, request string
}

// parts returns the interface and the network of a machine's spec.
func (n nic) parts() (iface, network map[string]any) {
	iface = map[string]any{"name": n.name}
	if n.mac != "" {
		iface["macAddress"] = n.mac
	}
	switch n.binding {
	case "":
		iface["bridge"] = map[string]any{}
	case "masquerade":
		iface["masquerade"] = map[string]any{}
	default:
		iface["binding"] = map[string]any{"name": n.binding}
	}
	network = map[string]any{"name": n.name, "pod": map[string]any{}}
	if n.network != "" {
		multus := map[string]any{"networkName": n.network}
		if n.primary {
			multus["default"] = true
		}
		network = map[string]any{"name": n.name, "multus": multus}
	}
	if n.claim != "" {
		network = map[string]any{"name": n.name, "resourceClaim": map[string]any{"claimName": n.claim, "requestName": n.request}}
	}
	return iface, network
}

// create creates a machine that runs at once.
func (f *fixture) create(name string, nics ...nic) {
	f.Helper()
	f.Must(f.tryCreate(name, nics...))
}

// tryCreate creates a machine, unless virt-api refuses it.
func (f *fixture) tryCreate(name string, nics ...nic) error {
	f.Helper()
	var interfaces, networks, claims []any
	for _, n := range nics {
		i, network := n.parts()
		interfaces, networks = append(interfaces, i), append(networks, network)
		if n.claim != "" {
			claims = append(claims, map[string]any{"name": n.claim, "resourceClaimTemplateName": n.claim})
		}
	}
	vm := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"runStrategy": "Always",
			"template": map[string]any{"spec": map[string]any{
				"terminationGracePeriodSeconds": int64(0),
				"domain": map[string]any{
					"cpu": map[string]any{"model": "Penryn"}, "memory": map[string]any{"guest": "64Mi"},
					"devices": map[string]any{"interfaces": interfaces},
				},
				"networks":       networks,
				"resourceClaims": claims,
			}},
		},
	}}
	_, err := user.Resource(machines).Namespace(f.NS).Create(f.Ctx, vm, metav1.CreateOptions{})
	if err == nil {
		f.names = append(f.names, name)
	}
	return err
}

// start creates a machine with an interface in the pod network and further ones, and returns its launcher pod when
// the guest runs.
func (f *fixture) start(name string, nics ...nic) *corev1.Pod {
	f.Helper()
	f.create(name, append([]nic{{name: "default", binding: "masquerade"}}, nics...)...)
	f.runs(name)
	return f.launcher(name)
}

// edit changes a machine.
func (f *fixture) edit(name string, change func(spec map[string]any)) {
	f.Helper()
	f.Eventually(time.Minute, func(ctx context.Context) error {
		vm, err := user.Resource(machines).Namespace(f.NS).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		spec, _, err := unstructured.NestedMap(vm.Object, "spec", "template", "spec")
		if err != nil {
			return err
		}
		change(spec)
		set(vm, spec, "spec", "template", "spec")
		_, err = user.Resource(machines).Namespace(f.NS).Update(ctx, vm, metav1.UpdateOptions{})
		return err
	})
}

// launchers returns the names of a machine's launcher pods that have not ended: those on a node, or all.
func (f *fixture) launchers(name, node string) (names []string) {
	f.Helper()
	list, err := f.Kube.CoreV1().Pods(f.NS).List(f.Ctx, metav1.ListOptions{LabelSelector: "kubevirt.io=virt-launcher,vm.kubevirt.io/name=" + name})
	f.Must(err)
	for _, p := range list.Items {
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if !ended && (node == "" || p.Spec.NodeName == node) {
			names = append(names, p.Name)
		}
	}
	return names
}

// launcher returns the only launcher pod of a machine.
func (f *fixture) launcher(name string) *corev1.Pod {
	f.Helper()
	names := f.launchers(name, "")
	if len(names) != 1 {
		f.Fatalf("machine %s has launcher pods %v, want one", name, names)
	}
	return f.pod(names[0])
}

func (f *fixture) pod(name string) *corev1.Pod {
	f.Helper()
	p, err := f.Kube.CoreV1().Pods(f.NS).Get(f.Ctx, name, metav1.GetOptions{})
	f.Must(err)
	return p
}

//go:build e2e

package attacks

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

// otherDriver is another vendor's DRA driver.
const otherDriver = "gpu.example.com"

// TestAttackNodeToken uses the token of the driver of node-1 for what does not belong to that node: slices
// of other drivers, of other nodes, of all nodes and of a profile, and other fields of its pods. With a token that is
// bound to no pod, and so to no node, it tries the node's own.
func TestAttackNodeToken(t *testing.T) {
	a := setup(t, "node")
	own, other := a.Cluster.Node(1).Name(), a.Cluster.Node(2).Name()
	stolen := a.as("nadra", "nadra-node", a.driverPod(own))
	unbound := a.as("nadra", "nadra-node", nil)
	nobody := a.slice("", otherDriver, "")
	const profile = "0123456789abcdef0123456789abcdef"
	shared := func(name string, labels map[string]string) *resourceapi.ResourceSlice {
		s := a.slice(name, lab.DriverName, own)
		s.Labels, s.Spec.Pool.Name = labels, own+"/attack"
		return s
	}

	for _, tt := range []struct {
		name  string
		token kubernetes.Interface
		slice *resourceapi.ResourceSlice
	}{
		{"a slice of another driver on its node", stolen, a.slice("attack-own", otherDriver, own)},
		{"a slice of another driver on node-2", stolen, a.slice("attack-other", otherDriver, other)},
		{"a slice of another driver for all nodes", stolen, a.slice("attack-all", otherDriver, "")},
		{"a slice of nadra on node-2", stolen, a.slice("attack-nadra", lab.DriverName, other)},
		{"a slice of nadra for all nodes", stolen, a.slice("attack-nadra-all", lab.DriverName, "")},
		{"a slice of nadra with the label of a profile", stolen, shared("attack-profile", map[string]string{api.ProfileLabel: profile})},
		{"a slice of nadra with the name of a profile's slice", stolen, shared("nadra-"+profile+"-0", nil)},
		{"a slice of nadra by a token without a node", unbound, a.slice("attack-unbound", lab.DriverName, own)},
		{"a slice of another driver by a token without a node", unbound, a.slice("attack-unbound-other", otherDriver, own)},
	} {
		a.try("create "+tt.name, func(a *attempt) {
			_, err := tt.token.ResourceV1().ResourceSlices().Create(a.Ctx, tt.slice, metav1.CreateOptions{})
			a.refused(err, "creating slice %s", tt.slice.Name)
			a.remove(tt.slice.Name)
		})
	}
	for _, tt := range []struct {
		name         string
		token        kubernetes.Interface
		driver, node string
	}{
		{"another driver's slice on its node", stolen, otherDriver, own},
		{"another driver's slice on node-2", stolen, otherDriver, other},
		{"another driver's slice for all nodes", stolen, otherDriver, ""},
		{"another driver's slice by a token without a node", unbound, otherDriver, other},
	} {
		a.try("empty and delete "+tt.name, func(a *attempt) {
			victim, err := a.Kube.ResourceV1().ResourceSlices().Create(a.Ctx, a.slice("victim", tt.driver, tt.node), metav1.CreateOptions{})
			a.Must(err)
			defer a.remove(victim.Name)
			slices := tt.token.ResourceV1().ResourceSlices()
			_, err = slices.Patch(a.Ctx, victim.Name, types.MergePatchType, []byte(`{"spec":{"devices":[]}}`), metav1.PatchOptions{})
			a.refused(err, "emptying slice %s", victim.Name)
			_, err = slices.Patch(a.Ctx, victim.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/x"]}}`), metav1.PatchOptions{})
			a.refused(err, "adding a finalizer to slice %s", victim.Name)
			a.refused(slices.Delete(a.Ctx, victim.Name, metav1.DeleteOptions{}), "deleting slice %s", victim.Name)
		})
	}
	a.try("delete nadra's slices of node-2, and of its own node by a token without a node", func(a *attempt) {
		dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
		for node, token := range map[string]kubernetes.Interface{other: stolen, own: unbound} {
			list, err := a.Kube.ResourceV1().ResourceSlices().List(a.Ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + lab.DriverName + ",spec.nodeName=" + node})
			a.Must(err)
			if len(list.Items) == 0 {
				a.Logf("node %s has no slice", node)
				continue
			}
			a.refused(token.ResourceV1().ResourceSlices().Delete(a.Ctx, list.Items[0].Name, dry), "deleting the slice of node %s", node)
		}
		_, err := unbound.ResourceV1().ResourceSlices().Create(a.Ctx, nobody, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		a.refused(err, "creating a slice for all nodes")
	})

	a.try("create an Event by a token without a node", func(a *attempt) {
		_, err := unbound.CoreV1().Events(a.NS).Create(a.Ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "made-up-"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: a.NS, Name: "x"},
		}, metav1.CreateOptions{})
		a.refused(err, "creating an Event")
	})

	victim, err := a.CreatePod(a.Ctx, func() *corev1.Pod {
		p := plain(a.NS, "victim")
		p.Spec.NodeName = own
		p.Finalizers = []string{"example.com/held"} // not a Job's: the Job controller removes that of a pod without a Job
		return p
	}())
	a.Must(err)
	t.Cleanup(func() {
		_, err := a.Kube.CoreV1().Pods(a.NS).Patch(context.WithoutCancel(a.Ctx), victim.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	// aims returns what the attacks want to change. The kubelet may change the rest of the pod meanwhile.
	aims := func(p *corev1.Pod) string {
		return fmt.Sprint(p.Annotations, p.Finalizers, p.OwnerReferences, p.Status.PodIP == "192.0.2.1")
	}
	const annotation = `{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/network-status":"[]"}}}`
	for _, tt := range []struct {
		name, patch string
		token       kubernetes.Interface
	}{
		{"remove a finalizer", `{"metadata":{"finalizers":null}}`, stolen},
		{"add a finalizer", `{"metadata":{"finalizers":["example.com/held","example.com/x"]}}`, stolen},
		{"add an owner", fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":%q}]}}`, victim.UID), stolen},
		{"change the address", `{"status":{"podIP":"192.0.2.1","podIPs":[{"ip":"192.0.2.1"}]}}`, stolen},
		{"change another annotation", `{"metadata":{"annotations":{"example.com/x":"1"}}}`, stolen},
		{"write network-status by the token of node-2", annotation, a.as("nadra", "nadra-node", a.driverPod(other))},
		{"write network-status by a token without a node", annotation, unbound},
	} {
		a.try(tt.name+" through the status of a pod", func(a *attempt) {
			before, err := a.Kube.CoreV1().Pods(a.NS).Get(a.Ctx, victim.Name, metav1.GetOptions{})
			a.Must(err)
			now, err := tt.token.CoreV1().Pods(a.NS).Patch(a.Ctx, victim.Name, types.MergePatchType, []byte(tt.patch), metav1.PatchOptions{}, "status")
			if err == nil && aims(before) == aims(now) {
				a.Log("the API server ignores the change")
				return
			}
			a.refused(err, "%s", tt.name)
		})
	}
}

// driverPod returns the driver's pod on a node.
func (a *attempt) driverPod(node string) *corev1.Pod {
	a.Helper()
	for _, p := range a.pods("nadra") {
		if p.Spec.NodeName == node && lab.IsReady(&p) {
			return &p
		}
	}
	a.Fatalf("node %s has no driver", node)
	return nil
}

// slice returns a slice with a device of a driver on a node, or on all nodes.
func (a *attempt) slice(name, driver, node string) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name, GenerateName: "attack-"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, Pool: resourceapi.ResourcePool{Name: "attack", ResourceSliceCount: 1}, Devices: []resourceapi.Device{{Name: "stolen"}},
	}}
	if node == "" {
		s.Spec.AllNodes = ptr.To(true)
	} else {
		s.Spec.NodeName = &node
	}
	return s
}

// remove deletes a slice of a row, if it is still there.
func (a *attempt) remove(slice string) {
	a.Helper()
	slices := a.Kube.ResourceV1().ResourceSlices()
	_, err := slices.Patch(a.Ctx, slice, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err == nil {
		err = slices.Delete(a.Ctx, slice, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		a.Error(err)
	}
}

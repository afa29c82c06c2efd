package doctor

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// programs returns a cluster's workloads: some that read the annotation, and others.
func programs(flags ...string) []runtime.Object {
	deployment := func(namespace, name, account string, c corev1.Container) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: meta(namespace, name)}
		d.Spec.Template.Spec = corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{c}}
		return d
	}
	whereabouts := daemonSet("kube-system", "whereabouts", corev1.Container{Image: "ghcr.io/x/whereabouts:v0.9"})
	whereabouts.Spec.Template.Spec.ServiceAccountName = "reader"
	return append(thick(),
		daemonSet("nadra", "nadra-node", corev1.Container{Name: "nadra-node", Args: flags}),
		deployment("nadra-system", "nadra-controller", "reader", corev1.Container{Name: "nadra-controller", Args: flags}),
		deployment("kubevirt", "virt-controller", "", corev1.Container{Name: "virt-controller", Image: "quay.io/kubevirt/virt-controller:v1.8.0"}),
		deployment("kube-system", "ours", "reader", corev1.Container{Name: "main", Image: "registry.example/ours:v2"}),
		deployment("kube-system", "web", "", corev1.Container{Name: "main", Image: "web"}),
		daemonSet("kube-system", "multi-networkpolicy-ds-amd64", corev1.Container{Image: "multi-networkpolicy-iptables"}),
		whereabouts,
		&rbacv1.ClusterRole{ObjectMeta: meta("", "reader"), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}},
			{APIGroups: []string{"k8s.cni.cncf.io"}, Resources: []string{"network-attachment-definitions"}, Verbs: []string{"get"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta("", "reader"), RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "reader"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: "reader"}, {Kind: rbacv1.ServiceAccountKind, Namespace: "nadra-system", Name: "reader"}},
		},
	)
}

func TestReaders(t *testing.T) {
	want := []translate.Reader{
		{Program: "multi-networkpolicy", Workload: "DaemonSet kube-system/multi-networkpolicy-ds-amd64", Image: "multi-networkpolicy-iptables"},
		{Workload: "Deployment kube-system/ours", Image: "registry.example/ours:v2"},
		{Program: "KubeVirt", Workload: "Deployment kubevirt/virt-controller", Image: "quay.io/kubevirt/virt-controller:v1.8.0"},
	}
	forged := &appsv1.Deployment{ObjectMeta: meta("shop", "nadra-controller")} // of a tenant
	forged.CreationTimestamp.Time = time.Unix(1, 0)
	forged.Spec.Template.Spec.Containers = []corev1.Container{{Name: "nadra-controller"}}
	c, _ := world(append(programs("--beside-multus"), forged)...)
	got, err := c.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Readers); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&Controller{Namespace: "nadra-system", Deployment: "nadra-controller", Args: []string{"--beside-multus"}, Desired: 1}, got.Controller); diff != "" {
		t.Error(diff)
	}

	c, _ = world(programs()...)
	if got, err = c.Read(t.Context()); err != nil || got.Readers != nil || got.Beside() {
		t.Errorf("nadra owns its nodes: %v, %v", got.Readers, err)
	}
	c.BesideMultus = true
	if got, err = c.Read(t.Context()); err != nil || !cmp.Equal(want, got.Readers) || !got.Beside() {
		t.Errorf("the user says that nadra will run beside Multus: %v, %v", got.Readers, err)
	}
}

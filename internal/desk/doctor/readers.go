package doctor

import (
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// Readers returns the workloads that read the networks annotation of pods, or may read it, and what could not
// be read of them.
func (c Cluster) Readers(ctx context.Context) ([]translate.Reader, []Gap) {
	r := reader{Cluster: c, caps: Capabilities{BesideMultus: true}}
	r.readReaders(ctx)
	return r.caps.Readers, r.caps.Gaps
}

// readReaders finds the workloads that read the networks annotation of pods, if Multus stays on nadra's nodes:
// known programs by their names, and others by the rights of their service accounts.
func (r *reader) readReaders(ctx context.Context) {
	if !r.caps.Beside() {
		return
	}
	accounts, err := r.accounts(ctx)
	r.failed(PartReaders, "", err, "the right to list clusterroles and clusterrolebindings of rbac.authorization.k8s.io")
	add := func(kind string, o metav1.Object, spec *corev1.PodSpec) {
		if found := readerOf(kind, o, spec, accounts); found != nil {
			r.caps.Readers = append(r.caps.Readers, *found)
		}
	}
	apps := r.Kube.AppsV1()
	for _, err := range []error{
		kube.EachItem(ctx, kube.All, apps.DaemonSets("").List, func(d *appsv1.DaemonSet) {
			if !isMultus(d) {
				add("DaemonSet", d, &d.Spec.Template.Spec)
			}
		}),
		kube.EachItem(ctx, kube.All, apps.Deployments("").List, func(d *appsv1.Deployment) { add("Deployment", d, &d.Spec.Template.Spec) }),
		kube.EachItem(ctx, kube.All, apps.StatefulSets("").List, func(s *appsv1.StatefulSet) { add("StatefulSet", s, &s.Spec.Template.Spec) }),
	} {
		if r.failed(PartReaders, "", err, "the right to list daemonsets, deployments and statefulsets of apps") {
			break
		}
	}
	slices.SortFunc(r.caps.Readers, func(a, b translate.Reader) int { return strings.Compare(a.Workload, b.Workload) })
}

// accounts returns the service accounts that may read pods and networks.
func (r *reader) accounts(ctx context.Context) (map[types.NamespacedName]bool, error) {
	var roles []rbacv1.ClusterRole
	var bindings []rbacv1.ClusterRoleBinding
	rbac := r.Kube.RbacV1()
	err := kube.EachItem(ctx, kube.All, rbac.ClusterRoles().List, kube.Into(&roles))
	if err == nil {
		err = kube.EachItem(ctx, kube.All, rbac.ClusterRoleBindings().List, kube.Into(&bindings))
	}
	return translate.Accounts(roles, bindings), err
}

// readerOf returns a workload as a reader of the annotation, or nil. nadra's own programs, Multus, and
// whereabouts, which goes by network-status, are none.
func readerOf(kind string, o metav1.Object, spec *corev1.PodSpec, accounts map[types.NamespacedName]bool) *translate.Reader {
	out := translate.Reader{Workload: kind + " " + o.GetNamespace() + "/" + o.GetName()}
	if p, image, found := translate.Find(o.GetName(), spec); found {
		out.Program, out.Image = p.Name, image
		return &out
	}
	for _, c := range spec.Containers {
		if c.Name == installation.DriverContainer || c.Name == installation.ControllerContainer || strings.Contains(c.Image+o.GetName(), "whereabouts") {
			return nil
		}
		out.Image = c.Image
	}
	if !accounts[types.NamespacedName{Namespace: o.GetNamespace(), Name: spec.ServiceAccountName}] {
		return nil
	}
	return &out
}

package upgrade

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/kube"
)

// Removal removes Multus. NetworkAttachmentDefinitions and their CRD stay: nadra serves
// them.
type Removal struct {
	Cluster
	// DryRun is a Runner's.
	DryRun kube.DryRun
	// Say reports progress.
	Say func(format string, args ...any)
}

// Remove deletes Multus' DaemonSets, the ConfigMaps that they mount, and the rights that
// only they have. It ignores objects that are gone already.
func (r Removal) Remove(ctx context.Context, refs []MultusRef) error {
	for _, ref := range refs {
		d, err := r.Kube.AppsV1().DaemonSets(ref.Namespace).Get(ctx, ref.DaemonSet, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading DaemonSet %s/%s: %w", ref.Namespace, ref.DaemonSet, err)
		}
		if err := r.daemonSet(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// daemonSet deletes what belongs to a DaemonSet, and the DaemonSet last, because it names
// what belongs to it.
func (r Removal) daemonSet(ctx context.Context, d *appsv1.DaemonSet) error {
	spec := &d.Spec.Template.Spec
	for _, v := range spec.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		if err := r.delete(ctx, "ConfigMap", d.Namespace, v.ConfigMap.Name, r.Kube.CoreV1().ConfigMaps(d.Namespace).Delete); err != nil {
			return err
		}
	}
	if account := spec.ServiceAccountName; account != "" && account != "default" {
		if err := r.rights(ctx, d.Namespace, account); err != nil {
			return err
		}
		if err := r.delete(ctx, "ServiceAccount", d.Namespace, account, r.Kube.CoreV1().ServiceAccounts(d.Namespace).Delete); err != nil {
			return err
		}
	}
	return r.delete(ctx, "DaemonSet", d.Namespace, d.Name, r.Kube.AppsV1().DaemonSets(d.Namespace).Delete)
}

// rights deletes the bindings whose only subject is the service account, and the roles
// that no other binding refers to.
func (r Removal) rights(ctx context.Context, namespace, account string) error {
	bindings, err := kube.AllItems[rbacv1.ClusterRoleBinding](ctx, kube.All, r.Kube.RbacV1().ClusterRoleBindings().List)
	if err != nil {
		return fmt.Errorf("listing ClusterRoleBindings: %w", err)
	}
	its := func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == namespace && s.Name == account
	}
	var roles []string
	others := slices.DeleteFunc(slices.Clone(bindings), func(b *rbacv1.ClusterRoleBinding) bool {
		return len(b.Subjects) == 1 && its(b.Subjects[0])
	})
	for _, b := range bindings {
		if len(b.Subjects) != 1 || !its(b.Subjects[0]) {
			continue
		}
		if err := r.delete(ctx, "ClusterRoleBinding", "", b.Name, r.Kube.RbacV1().ClusterRoleBindings().Delete); err != nil {
			return err
		}
		if !slices.ContainsFunc(others, func(o *rbacv1.ClusterRoleBinding) bool { return o.RoleRef == b.RoleRef }) {
			roles = append(roles, b.RoleRef.Name)
		}
	}
	for _, name := range roles {
		role, err := r.Kube.RbacV1().ClusterRoles().Get(ctx, name, metav1.GetOptions{})
		if err != nil || role.Labels["kubernetes.io/bootstrapping"] != "" { // a role of Kubernetes itself
			continue
		}
		if err := r.delete(ctx, "ClusterRole", "", name, r.Kube.RbacV1().ClusterRoles().Delete); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes an object, and reports it. It ignores an object that is gone.
func (r Removal) delete(ctx context.Context, kind, namespace, name string, do func(context.Context, string, metav1.DeleteOptions) error) error {
	object := kind + " " + name
	if namespace != "" {
		object = kind + " " + namespace + "/" + name
	}
	outcome := "is deleted"
	if r.DryRun != "" {
		outcome = "would be deleted"
	}
	err := r.DryRun.Write(func() error { return do(ctx, name, metav1.DeleteOptions{DryRun: r.DryRun.Options()}) })
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("deleting %s: %w", object, err)
	}
	r.Say("%s %s", object, outcome)
	return nil
}

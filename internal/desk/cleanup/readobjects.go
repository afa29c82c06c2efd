package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/desk/upgrade"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// whereabouts is the API group of whereabouts.
var whereabouts = schema.GroupVersion{Group: "whereabouts.cni.cncf.io", Version: "v1alpha1"}

// ours selects the templates that admission created.
var ours = metav1.ListOptions{LabelSelector: v1alpha1.ManagedByLabel + "=" + v1alpha1.Controller}

// objects reads all objects but the pods, and workloads only if one may refer to a template.
func (c Cleaner) objects(ctx context.Context) (f facts, err error) {
	err = f.readClaims(ctx, c.Kube, c.Namespace, ours)
	if err == nil && len(f.Templates) > 0 {
		err = f.readWorkloads(ctx, c.Kube, c.Namespace)
	}
	if err == nil {
		err = c.whereabouts(ctx, &f)
	}
	return f, err
}

// facts reads what decides whether nadra is in use, without the nodes' records.
func (u Uninstaller) facts(ctx context.Context) (f facts, err error) {
	core := u.Kube.CoreV1()
	err = f.readClaims(ctx, u.Kube, "", kube.All)
	if err == nil {
		err = kube.Append(ctx, "pods", kube.All, core.Pods("").List, &f.Pods)
	}
	if err == nil {
		err = kube.Append(ctx, "nodes", kube.All, core.Nodes().List, &f.Nodes)
	}
	if err == nil {
		err = kube.Append(ctx, "namespaces", kube.All, core.Namespaces().List, &f.Namespaces)
	}
	if err == nil {
		err = f.readWorkloads(ctx, u.Kube, "")
	}
	if err == nil {
		f.Workloads = slices.DeleteFunc(f.Workloads, func(w workload) bool { return w.Kind == "ReplicaSet" && w.Owned })
		f.Upgrade, err = u.upgrade(ctx, f.Workloads)
	}
	return f, err
}

// readClaims reads the claims of a namespace and some of its templates; empty means all namespaces.
func (f *facts) readClaims(ctx context.Context, client kubernetes.Interface, namespace string, templates metav1.ListOptions) error {
	resources := client.ResourceV1()
	if err := kube.Append(ctx, "ResourceClaims", kube.All, resources.ResourceClaims(namespace).List, &f.Claims); err != nil {
		return err
	}
	return kube.Append(ctx, "ResourceClaimTemplates", templates, resources.ResourceClaimTemplates(namespace).List, &f.Templates)
}

// readWorkloads reads the workloads of a namespace; empty means all.
func (f *facts) readWorkloads(ctx context.Context, client kubernetes.Interface, namespace string) error {
	return kube.EachWorkload(ctx, client, namespace, func(o metav1.Object, kind string, template *corev1.PodTemplateSpec) {
		f.Workloads = append(f.Workloads, workload{kind, o.GetNamespace(), o.GetName(), template, metav1.GetControllerOf(o) != nil})
	})
}

// upgrade describes an unfinished upgrade; empty without one. An upgrade is unfinished, too, while the cluster has a
// DaemonSet of Multus whose original settings only the upgrade's state has.
func (u Uninstaller) upgrade(ctx context.Context, workloads []workload) (string, error) {
	_, state, _, err := upgrade.Store{Kube: u.Kube, Namespace: u.Where.Controller}.Load(ctx)
	switch {
	case errors.Is(err, upgrade.ErrNone):
		return "", nil
	case err != nil:
		return "", err
	case state.Phase == upgrade.Done:
		for _, w := range workloads {
			if _, changed := state.Multus[w.Namespace+"/"+w.Name]; changed && w.Kind == "DaemonSet" {
				return fmt.Sprintf("it has changed DaemonSet %s/%s of Multus, and has its original settings", w.Namespace, w.Name), nil
			}
		}
	case state.Phase != upgrade.RolledBack:
		return "it is " + string(state.Phase), nil
	}
	return "", nil
}

// whereabouts reads the pools and reservations of whereabouts.
func (c Cleaner) whereabouts(ctx context.Context, f *facts) error {
	err := c.each(ctx, "ippools", func(o *unstructured.Unstructured) {
		pool := pool{Namespace: o.GetNamespace(), Name: o.GetName(), Allocations: map[string]allocation{}}
		pool.Range, _, _ = unstructured.NestedString(o.Object, "spec", "range")
		all, _, _ := unstructured.NestedMap(o.Object, "spec", "allocations")
		for key, value := range all {
			if fields, ok := value.(map[string]any); ok {
				pool.Allocations[key] = allocationOf(fields, "id")
			}
		}
		f.Pools = append(f.Pools, pool)
	})
	if err != nil {
		return err
	}
	return c.each(ctx, "overlappingrangeipreservations", func(o *unstructured.Unstructured) {
		fields, _, _ := unstructured.NestedMap(o.Object, "spec")
		f.Reservations = append(f.Reservations, reserved{
			Namespace: o.GetNamespace(), Name: o.GetName(), allocation: allocationOf(fields, "containerid"),
		})
	})
}

func allocationOf(fields map[string]any, id string) allocation {
	text := func(name string) string {
		s, _ := fields[name].(string)
		return s
	}
	return allocation{ID: text(id), Pod: text("podref"), IfName: text("ifname")}
}

// each calls do for each object of a kind of whereabouts. A cluster without whereabouts
// has none.
func (c Cleaner) each(ctx context.Context, resource string, do func(*unstructured.Unstructured)) error {
	client := c.Dynamic.Resource(whereabouts.WithResource(resource))
	err := kube.EachItem(ctx, kube.All, client.List, do)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("listing %s of whereabouts: %w", resource, err)
	}
	return nil
}

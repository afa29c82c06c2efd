package cleanup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// whereabouts is the API group of whereabouts.
var whereabouts = schema.GroupVersion{Group: "whereabouts.cni.cncf.io", Version: "v1alpha1"}

// objects reads all objects but the pods.
func (c Cleaner) objects(ctx context.Context) (objectFacts, error) {
	var f objectFacts
	resources := c.Kube.ResourceV1()
	if err := kube.Append(ctx, "ResourceClaims", resources.ResourceClaims(c.Namespace).List, &f.Claims); err != nil {
		return f, err
	}
	ours := metav1.ListOptions{LabelSelector: v1alpha1.ManagedByLabel + "=" + v1alpha1.Controller}
	err := kube.EachItem(ctx, ours, resources.ResourceClaimTemplates(c.Namespace).List,
		kube.Into(&f.Templates))
	if err != nil {
		return f, fmt.Errorf("listing ResourceClaimTemplates: %w", err)
	}
	if len(f.Templates) > 0 {
		f.Workloads = map[string][]corev1.PodSpec{}
		err = kube.EachWorkload(ctx, c.Kube, c.Namespace, func(o metav1.Object, _ string, template *corev1.PodTemplateSpec) {
			f.Workloads[o.GetNamespace()] = append(f.Workloads[o.GetNamespace()], template.Spec)
		})
		if err != nil {
			return f, err
		}
	}
	return f, c.whereabouts(ctx, &f)
}

// whereabouts reads the pools and reservations of whereabouts.
func (c Cleaner) whereabouts(ctx context.Context, f *objectFacts) error {
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

package cleanuprun

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nadra-dev/nadra/internal/cleanup"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// whereabouts is where its objects are.
var whereabouts = schema.GroupVersion{Group: "whereabouts.cni.cncf.io", Version: "v1alpha1"}

// objects reads all but the pods.
func (c Cleaner) objects(ctx context.Context) (cleanup.Facts, error) {
	var f cleanup.Facts
	claims, err := c.Kube.ResourceV1().ResourceClaims(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return f, fmt.Errorf("listing ResourceClaims: %w", err)
	}
	f.Claims = claims.Items
	templates, err := c.Kube.ResourceV1().ResourceClaimTemplates(c.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: v1alpha1.ManagedByLabel + "=" + v1alpha1.Controller,
	})
	if err != nil {
		return f, fmt.Errorf("listing ResourceClaimTemplates: %w", err)
	}
	f.Templates = templates.Items
	if len(f.Templates) > 0 {
		if f.Workloads, err = kube.PodSpecs(ctx, c.Kube, c.Namespace); err != nil {
			return f, err
		}
	}
	return f, c.whereabouts(ctx, &f)
}

func (c Cleaner) whereabouts(ctx context.Context, f *cleanup.Facts) error {
	err := c.each(ctx, "ippools", func(o *unstructured.Unstructured) {
		pool := cleanup.Pool{Namespace: o.GetNamespace(), Name: o.GetName(), Allocations: map[string]cleanup.Allocation{}}
		pool.Range, _, _ = unstructured.NestedString(o.Object, "spec", "range")
		all, _, _ := unstructured.NestedMap(o.Object, "spec", "allocations")
		for key, value := range all {
			if fields, ok := value.(map[string]any); ok {
				pool.Allocations[key] = allocation(fields, "id")
			}
		}
		f.Pools = append(f.Pools, pool)
	})
	if err != nil {
		return err
	}
	return c.each(ctx, "overlappingrangeipreservations", func(o *unstructured.Unstructured) {
		fields, _, _ := unstructured.NestedMap(o.Object, "spec")
		f.Reservations = append(f.Reservations, cleanup.Reserved{
			Namespace: o.GetNamespace(), Name: o.GetName(), Allocation: allocation(fields, "containerid"),
		})
	})
}

func allocation(fields map[string]any, id string) cleanup.Allocation {
	text := func(name string) string {
		s, _ := fields[name].(string)
		return s
	}
	return cleanup.Allocation{ID: text(id), Pod: text("podref"), IfName: text("ifname")}
}

// each lists a kind of whereabouts, in pages. Where there is no whereabouts there
// is nothing.
func (c Cleaner) each(ctx context.Context, resource string, do func(*unstructured.Unstructured)) error {
	client := c.Dynamic.Resource(whereabouts.WithResource(resource))
	err := kube.EachItem(ctx, metav1.ListOptions{}, kube.PagesOf(client.List), do)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("listing %s of whereabouts: %w", resource, err)
	}
	return nil
}

// pods reads those of all namespaces: whose address it is, is not told by the
// pool's.
func (c Cleaner) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := c.Kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	return list.Items, nil
}

// Package workloads lists what the cluster's own workloads make pods of.
package workloads

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/nadra-dev/nadra/internal/paged"
)

// PodSpecs are the pod templates of Deployments, ReplicaSets, StatefulSets,
// DaemonSets, Jobs, CronJobs and ReplicationControllers, by namespace. An empty
// namespace means all.
func PodSpecs(ctx context.Context, kube kubernetes.Interface, namespace string) (map[string][]corev1.PodSpec, error) {
	out := map[string][]corev1.PodSpec{}
	err := Each(ctx, kube, namespace, func(o metav1.Object, _ string, spec *corev1.PodSpec) {
		out[o.GetNamespace()] = append(out[o.GetNamespace()], *spec)
	})
	return out, err
}

// Each has do look at each workload, with its kind and what its pods are made of.
func Each(ctx context.Context, kube kubernetes.Interface, namespace string, do func(o metav1.Object, kind string, spec *corev1.PodSpec)) error {
	apps, batch := kube.AppsV1(), kube.BatchV1()
	for _, k := range []struct {
		kind string
		list paged.Lister
	}{
		{"Deployment", paged.List(apps.Deployments(namespace).List)},
		{"ReplicaSet", paged.List(apps.ReplicaSets(namespace).List)},
		{"StatefulSet", paged.List(apps.StatefulSets(namespace).List)},
		{"DaemonSet", paged.List(apps.DaemonSets(namespace).List)},
		{"Job", paged.List(batch.Jobs(namespace).List)},
		{"CronJob", paged.List(batch.CronJobs(namespace).List)},
		{"ReplicationController", paged.List(kube.CoreV1().ReplicationControllers(namespace).List)},
	} {
		err := pager.New(k.list).EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
			accessor, err := meta.Accessor(o)
			if spec := specOf(o); err == nil && spec != nil {
				do(accessor, k.kind, spec)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("listing %ss: %w", k.kind, err)
		}
	}
	return nil
}

func specOf(o runtime.Object) *corev1.PodSpec {
	switch w := o.(type) {
	case *appsv1.Deployment:
		return &w.Spec.Template.Spec
	case *appsv1.ReplicaSet:
		return &w.Spec.Template.Spec
	case *appsv1.StatefulSet:
		return &w.Spec.Template.Spec
	case *appsv1.DaemonSet:
		return &w.Spec.Template.Spec
	case *batchv1.Job:
		return &w.Spec.Template.Spec
	case *batchv1.CronJob:
		return &w.Spec.JobTemplate.Spec.Template.Spec
	case *corev1.ReplicationController:
		if w.Spec.Template != nil {
			return &w.Spec.Template.Spec
		}
	}
	return nil
}

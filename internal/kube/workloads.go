package kube

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
)

// PodSpecs returns the pod templates of Deployments, ReplicaSets, StatefulSets,
// DaemonSets, Jobs, CronJobs and ReplicationControllers, by namespace. An empty
// namespace means all namespaces.
func PodSpecs(ctx context.Context, client kubernetes.Interface, namespace string) (map[string][]corev1.PodSpec, error) {
	out := map[string][]corev1.PodSpec{}
	err := EachWorkload(ctx, client, namespace, func(o metav1.Object, _ string, spec *corev1.PodSpec) {
		out[o.GetNamespace()] = append(out[o.GetNamespace()], *spec)
	})
	return out, err
}

// EachWorkload calls do for each workload with its kind and its pod template.
func EachWorkload(ctx context.Context, client kubernetes.Interface, namespace string, do func(o metav1.Object, kind string, spec *corev1.PodSpec)) error {
	apps, batch := client.AppsV1(), client.BatchV1()
	for _, k := range []struct {
		kind string
		list Pages
	}{
		{"Deployment", PagesOf(apps.Deployments(namespace).List)},
		{"ReplicaSet", PagesOf(apps.ReplicaSets(namespace).List)},
		{"StatefulSet", PagesOf(apps.StatefulSets(namespace).List)},
		{"DaemonSet", PagesOf(apps.DaemonSets(namespace).List)},
		{"Job", PagesOf(batch.Jobs(namespace).List)},
		{"CronJob", PagesOf(batch.CronJobs(namespace).List)},
		{"ReplicationController", PagesOf(client.CoreV1().ReplicationControllers(namespace).List)},
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

// specOf returns the pod spec in a workload's template, or nil for any other object.
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

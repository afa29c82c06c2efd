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

// EachWorkload calls do for each Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob and ReplicationController,
// with its kind and its pod template. An empty namespace means all namespaces.
func EachWorkload(ctx context.Context, client kubernetes.Interface, namespace string, do func(o metav1.Object, kind string, template *corev1.PodTemplateSpec)) error {
	apps, batch := client.AppsV1(), client.BatchV1()
	for _, k := range []struct {
		kind string
		list *pager.ListPager
	}{
		{"Deployment", pages(apps.Deployments(namespace).List)},
		{"ReplicaSet", pages(apps.ReplicaSets(namespace).List)},
		{"StatefulSet", pages(apps.StatefulSets(namespace).List)},
		{"DaemonSet", pages(apps.DaemonSets(namespace).List)},
		{"Job", pages(batch.Jobs(namespace).List)},
		{"CronJob", pages(batch.CronJobs(namespace).List)},
		{"ReplicationController", pages(client.CoreV1().ReplicationControllers(namespace).List)},
	} {
		err := k.list.EachListItem(ctx, All, func(o runtime.Object) error {
			accessor, err := meta.Accessor(o)
			if template := templateOf(o); err == nil && template != nil {
				do(accessor, k.kind, template)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("listing %ss: %w", k.kind, err)
		}
	}
	return nil
}

// templateOf returns a workload's pod template, or nil for any other object.
func templateOf(o runtime.Object) *corev1.PodTemplateSpec {
	switch w := o.(type) {
	case *appsv1.Deployment:
		return &w.Spec.Template
	case *appsv1.ReplicaSet:
		return &w.Spec.Template
	case *appsv1.StatefulSet:
		return &w.Spec.Template
	case *appsv1.DaemonSet:
		return &w.Spec.Template
	case *batchv1.Job:
		return &w.Spec.Template
	case *batchv1.CronJob:
		return &w.Spec.JobTemplate.Spec.Template
	case *corev1.ReplicationController:
		return w.Spec.Template
	}
	return nil
}

package controller

import (
	"context"
	"fmt"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nadra-dev/nadra/internal/owned"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// The indexes of the cache.
const (
	// byClass finds NADs by the names of the classes that they may need.
	byClass = "nadra.dev/class"
	// byTemplate finds pods by the templates of nadra to which they refer.
	byTemplate = "nadra.dev/template"
)

// CacheOptions returns options of a cache that only keeps what the controllers read. There may be tens
// of thousands of pods and NADs.
func CacheOptions(o Options) cache.Options {
	own := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", Name)}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:                        {Transform: slimPod},
			&resourceapi.ResourceClaimTemplate{}: {Transform: slimTemplate},
			&corev1.Secret{}: {
				Namespaces: map[string]cache.Config{o.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", o.Secret)}},
			},
			&admissionv1.MutatingWebhookConfiguration{}:   own,
			&admissionv1.ValidatingWebhookConfiguration{}: own,
		},
	}
}

// slimPod reduces a pod to its identity, the templates to which it refers, its node, and what attaches
// its networks (see cachedAttacher). It keeps handwritten templates only for pods that name networks.
func slimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	slim := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
		},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Reason: attacherOf(pod)},
	}
	templates := owned.TemplatesOf(&pod.Spec)
	if cachedAttacher(slim) != "" {
		templates = owned.AllTemplates(&pod.Spec)
	}
	for _, name := range templates {
		slim.Spec.ResourceClaims = append(slim.Spec.ResourceClaims, corev1.PodResourceClaim{ResourceClaimTemplateName: &name})
	}
	return slim, nil
}

// slimTemplate reduces managed fields to managers and operations.
func slimTemplate(object any) (any, error) {
	if t, ok := object.(*resourceapi.ResourceClaimTemplate); ok {
		for i := range t.ManagedFields {
			t.ManagedFields[i] = metav1.ManagedFieldsEntry{Manager: t.ManagedFields[i].Manager, Operation: t.ManagedFields[i].Operation}
		}
	}
	return object, nil
}

// addIndexes adds the indexes to the cache.
func addIndexes(ctx context.Context, indexer client.FieldIndexer, pools bool) error {
	classNames := func(o client.Object) []string { return classesOf(o, pools) }
	if err := indexer.IndexField(ctx, &nadv1.NetworkAttachmentDefinition{}, byClass, classNames); err != nil {
		return fmt.Errorf("indexing NADs: %w", err)
	}
	if err := indexer.IndexField(ctx, &corev1.Pod{}, byTemplate, podTemplates); err != nil {
		return fmt.Errorf("indexing pods: %w", err)
	}
	return nil
}

// podTemplates returns the templates of nadra to which a pod refers.
func podTemplates(o client.Object) []string {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	return owned.TemplatesOf(&pod.Spec)
}

// classesOf returns the names of the classes that a NAD may need.
func classesOf(o client.Object, pools bool) []string {
	names := []string{attachment.DeviceClassName(attachment.NetworkRef{Namespace: o.GetNamespace(), Name: o.GetName()})}
	if pool := attachment.PoolOf(o.GetAnnotations()); pools && pool != "" {
		names = append(names, poolClassName(pool))
	}
	return names
}

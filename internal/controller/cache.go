package controller

import (
	"context"
	"fmt"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// The indexes of the cache.
const (
	// byClass finds NADs by the names of the classes that they may need.
	byClass = "nadra.dev/class"
	// byID finds NADs by their IDs.
	byID = "nadra.dev/id"
	// byTemplate finds pods by the templates of nadra to which they refer.
	byTemplate = "nadra.dev/template"
)

// CacheOptions returns options of a cache that only keeps what the controllers read. There may be tens
// of thousands of NADs. It is not for pods, which have a cache of their own.
func CacheOptions() cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&resourceapi.ResourceClaimTemplate{}: {Transform: slimTemplate},
			&nadv1.NetworkAttachmentDefinition{}: {Transform: attachment.SlimObject},
			&resourceapi.ResourceSlice{}:         {Label: ofProfiles},
		},
	}
}

// ofProfiles selects the slices that nodes of a profile share.
var ofProfiles = func() labels.Selector {
	has, err := labels.NewRequirement(v1alpha1.ProfileLabel, selection.Exists, nil)
	utilruntime.Must(err)
	return labels.NewSelector().Add(*has)
}()

// slimObjects are the objects of a podCache. Node also stands for nodes' metadata.
var slimObjects = map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: slimPod}, &corev1.Node{}: {Transform: slimNode}}

// podCache is a cache of all pods of the cluster and of the nodes' metadata, both slim, that a manager fills only while
// it leads. The API server sends each of its watchers every change of every pod, and the webhooks, for which there
// are several replicas, need no pods.
type podCache struct{ cache.Cache }

// NeedLeaderElection makes the manager start the cache when it leads.
func (podCache) NeedLeaderElection() bool { return true }

// newPodCache returns a cache with the indexes of pods, and has the manager run it.
func newPodCache(ctx context.Context, m manager.Manager) (podCache, error) {
	made, err := cache.New(m.GetConfig(), cache.Options{
		Scheme: m.GetScheme(), HTTPClient: m.GetHTTPClient(), Mapper: m.GetRESTMapper(),
		ByObject: slimObjects,
	})
	if err != nil {
		return podCache{}, fmt.Errorf("making the cache of pods: %w", err)
	}
	if err := made.IndexField(ctx, &corev1.Pod{}, byTemplate, podTemplates); err != nil {
		return podCache{}, fmt.Errorf("indexing pods: %w", err)
	}
	pods := podCache{made}
	if err := m.Add(pods); err != nil {
		return podCache{}, fmt.Errorf("adding the cache of pods: %w", err)
	}
	return pods, nil
}

// podSource returns a source of pods for a controller.
type podSource func(handler.EventHandler, ...predicate.Predicate) source.Source

// source returns a source of the cache's pods for a controller.
func (c podCache) source(h handler.EventHandler, predicates ...predicate.Predicate) source.Source {
	return source.Kind[client.Object](c.Cache, &corev1.Pod{}, h, predicates...)
}

// nodeSource returns a source of the cache's nodes, as their metadata, for a controller.
func (c podCache) nodeSource(h handler.EventHandler) source.Source {
	return source.Kind[client.Object](c.Cache, nodeMetadata(), h)
}

// nodeMetadata returns an object that stands for the metadata of nodes.
func nodeMetadata() *metav1.PartialObjectMetadata {
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	return node
}

// slimPod reduces a pod to its identity, the templates to which it refers, its node, and what attaches
// its networks (see cachedAttacher). It keeps handwritten templates and extended resources only for pods that
// name networks, and what installation.DriverReady reads of a driver that is ready. It reads at most one entry of
// spec.resourceClaims beyond MaxPodClaims: the API server admits as many as fit into an object.
func slimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	pod.Spec.ResourceClaims = pod.Spec.ResourceClaims[:min(len(pod.Spec.ResourceClaims), v1alpha1.MaxPodClaims+1)]
	slim := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
		},
		Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName},
	}
	templates := translate.TemplatesOf(&pod.Spec)
	if attacher := attachment.AttacherOf(pod, len(templates) > 0); attacher != "" {
		templates = translate.AllTemplates(&pod.Spec)
		slim.Status = corev1.PodStatus{Reason: string(attacher), ExtendedResourceClaimStatus: pod.Status.ExtendedResourceClaimStatus}
	}
	if installation.DriverReady(pod, pod.Namespace) {
		slim.OwnerReferences, slim.Spec.Containers = pod.OwnerReferences, []corev1.Container{{Name: installation.DriverContainer}}
		slim.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	for _, name := range templates {
		slim.Spec.ResourceClaims = append(slim.Spec.ResourceClaims, corev1.PodResourceClaim{ResourceClaimTemplateName: &name})
	}
	return slim, nil
}

// slimNode reduces a node's metadata to its identity, the labels of its owner and profile, and the facts of that.
// Annotations of nodes are long.
func slimNode(object any) (any, error) {
	if n, ok := object.(*metav1.PartialObjectMetadata); ok {
		slim := metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion}
		slim.Labels, slim.Annotations = kept(n.Labels, v1alpha1.OwnerLabel, v1alpha1.ProfileLabel), kept(n.Annotations, v1alpha1.FactsAnnotation)
		return &metav1.PartialObjectMetadata{TypeMeta: n.TypeMeta, ObjectMeta: slim}, nil
	}
	return object, nil
}

// kept returns some keys of a map, as far as it has them.
func kept(of map[string]string, keys ...string) map[string]string {
	var out map[string]string
	for _, key := range keys {
		if value, found := of[key]; found {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
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

// addIndexes adds the indexes of NADs to the cache.
func addIndexes(ctx context.Context, indexer client.FieldIndexer, pools bool) error {
	classNames := func(o client.Object) []string { return classesOf(o, pools) }
	for name, keys := range map[string]client.IndexerFunc{byClass: classNames, byID: idOf} {
		if err := indexer.IndexField(ctx, &nadv1.NetworkAttachmentDefinition{}, name, keys); err != nil {
			return fmt.Errorf("indexing NADs: %w", err)
		}
	}
	return nil
}

// idOf returns the ID of a NAD, if no earlier NAD has the same.
func idOf(o client.Object) []string {
	return []string{string(attachment.NetworkIDOf(attachment.RefOf(o)))}
}

// podTemplates returns the templates of nadra to which a pod refers.
func podTemplates(o client.Object) []string {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	return translate.TemplatesOf(&pod.Spec)
}

// classesOf returns the names of the classes that a NAD may need.
func classesOf(o client.Object, pools bool) []string {
	names := []string{attachment.DeviceClassName(attachment.RefOf(o))}
	if pool := attachment.PoolOf(o.GetAnnotations()); pools && pool != "" {
		names = append(names, poolClassName(pool))
	}
	return names
}

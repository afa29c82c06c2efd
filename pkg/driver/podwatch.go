package driver

import (
	"context"
	"fmt"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// podWatch watches the node's pods: their deletions while the gate holds their containers,
// pods that are gone, and restart policies. No start of a pod waits for it.
type podWatch struct {
	client   kubernetes.Interface
	informer cache.SharedIndexInformer
}

// knownPod is what is kept of a pod.
type knownPod struct {
	metav1.PartialObjectMetadata
	// restart is of restartOf.
	restart corev1.RestartPolicy
	// ownStatus is true if this driver was the last to write network-status.
	ownStatus bool
	// references is nil for a pod without claims.
	references *podReferences
}

// newPodWatch returns a watch of the node's pods that has not started.
func newPodWatch(client kubernetes.Interface, node string) (*podWatch, error) {
	informer := coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
		})
	if err := informer.SetTransform(slimPod); err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	return &podWatch{client: client, informer: informer}, nil
}

// onChange adds a handler for every pod that is new to the watch, with before nil, for every change of one, and for every
// one that is gone, with now nil.
func (w *podWatch) onChange(handle func(before, now *metav1.PartialObjectMetadata)) error {
	changed := func(before, now any) {
		if b, n := metaOf(before), metaOf(now); b != nil || n != nil {
			handle(b, n)
		}
	}
	_, err := w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { changed(nil, now) },
		UpdateFunc: changed,
		DeleteFunc: func(before any) { changed(before, nil) },
	})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	return nil
}

// restartOf returns the restart policy of a pod. It is Never if that is the policy of a single container: nothing starts
// one again that the gate refuses.
func restartOf(spec *corev1.PodSpec) corev1.RestartPolicy {
	never := func(c corev1.Container) bool {
		return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyNever
	}
	if slices.ContainsFunc(spec.Containers, never) || slices.ContainsFunc(spec.InitContainers, never) {
		return corev1.RestartPolicyNever
	}
	return spec.RestartPolicy
}

// slimPod drops what the driver does not read.
func slimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return &knownPod{
		PartialObjectMetadata: metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Annotations: keptAnnotations(pod.Annotations), DeletionTimestamp: pod.DeletionTimestamp,
		}},
		restart:    restartOf(&pod.Spec),
		ownStatus:  attachment.StatusIsOurs(pod),
		references: referencesOf(pod),
	}, nil
}

// maxStatus is the number of bytes that are kept of a pod's network-status. It is more than
// the networks of a pod at all limits take in it; a longer text counts as unreadable.
const maxStatus = 64 << 10

// keptAnnotations returns the annotations that the driver reads. It keeps no more of each than
// decides about it, because a tenant may write 256 KiB of annotations for each pod.
func keptAnnotations(all map[string]string) map[string]string {
	kept := map[string]string{}
	for key, limit := range map[string]int{
		attachment.NetworksAnnotation: v1alpha1.MaxAnnotation, attachment.OwnNetworksAnnotation: v1alpha1.MaxAnnotation,
		nadv1.NetworkStatusAnnot: maxStatus, checkAnnotation: maxMark, retriggerAnnotation: maxMark, corev1.MirrorPodAnnotationKey: maxMark,
	} {
		if value, found := all[key]; found {
			kept[key] = v1alpha1.Cut(value, limit)
		}
	}
	return kept
}

// maxMark is the number of bytes that are kept of an annotation that is only compared.
const maxMark = 256

// metaOf returns the metadata of an object of an informer, or nil.
func metaOf(obj any) *metav1.PartialObjectMetadata {
	if deleted, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = deleted.Obj
	}
	switch m := obj.(type) {
	case *metav1.PartialObjectMetadata:
		return m
	case *knownPod:
		return &m.PartialObjectMetadata
	}
	return nil
}

// podRefOf returns the reference of a pod.
func podRefOf(m *metav1.PartialObjectMetadata) attachment.PodRef {
	return attachment.PodRef{Namespace: m.Namespace, Name: m.Name, UID: string(m.UID)}
}

// Find returns the pod as last seen, and for a static pod its mirror pod. It returns nil if the
// pod is unknown, or another pod has its name.
func (w *podWatch) Find(pod attachment.PodRef) *metav1.PartialObjectMetadata {
	if known := w.known(pod); known != nil {
		return &known.PartialObjectMetadata
	}
	return nil
}

// readPod returns the pod as the API server has it, for what the watch has not seen yet. Another pod may have its
// name by now.
func readPod(ctx context.Context, client metadata.Interface, pod attachment.PodRef) (*metav1.PartialObjectMetadata, error) {
	return client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
}

// known returns what is kept of a pod, or nil.
func (w *podWatch) known(pod attachment.PodRef) *knownPod {
	obj, found, err := w.informer.GetStore().GetByKey(pod.Namespace + "/" + pod.Name)
	if known, ok := obj.(*knownPod); err == nil && found && ok && (string(known.UID) == pod.UID || known.Annotations[corev1.MirrorPodAnnotationKey] == pod.UID) {
		return known
	}
	return nil
}

// restarts reports whether the pod is known to restart a container that could not be
// started.
func (w *podWatch) restarts(pod attachment.PodRef) bool {
	known := w.known(pod)
	return known != nil && known.restart != "" && known.restart != corev1.RestartPolicyNever
}

// hasOwnStatus reports whether the pod is known to have a network-status that this driver wrote.
func (w *podWatch) hasOwnStatus(pod attachment.PodRef) bool {
	known := w.known(pod)
	return known != nil && known.ownStatus
}

// isStatic reports whether the pod is known to be a static one.
func (w *podWatch) isStatic(pod attachment.PodRef) bool {
	m := w.Find(pod)
	return m != nil && m.Annotations[corev1.MirrorPodAnnotationKey] != ""
}

// deleting reports whether the pod is known to be under deletion. A static pod runs on when its mirror pod is
// deleted.
func (w *podWatch) deleting(pod attachment.PodRef) bool {
	m := w.Find(pod)
	return m != nil && m.DeletionTimestamp != nil && !w.isStatic(pod)
}

// seen returns a channel that is closed when the watch has the pod, or ctx ends.
func (w *podWatch) seen(ctx context.Context, pod attachment.PodRef) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = wait.PollUntilContextCancel(ctx, podSeenPoll, true, func(context.Context) (bool, error) { return w.known(pod) != nil, nil })
	}()
	return done
}

// ends reports whether the pod is known to be gone, or under deletion.
func (w *podWatch) ends(pod attachment.PodRef) bool {
	return w.absent(pod) || w.deleting(pod)
}

// absent reports whether the API server has no such pod on this node. It returns false while
// that is unknown.
func (w *podWatch) absent(pod attachment.PodRef) bool {
	return w.informer.HasSynced() && w.Find(pod) == nil
}

// awaitReferences waits until the watch has the pod with these claims. It returns nil if that
// takes too long.
func (w *podWatch) awaitReferences(ctx context.Context, pod attachment.PodRef, claims []*resourceapi.ResourceClaim) *podReferences {
	var out *podReferences
	_ = wait.PollUntilContextTimeout(ctx, podSeenPoll, podSeenWait, true, func(context.Context) (bool, error) {
		if known := w.known(pod); known != nil && known.references.knowsAll(claims) {
			out = known.references
		}
		return out != nil, nil
	})
	return out
}

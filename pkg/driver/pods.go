package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

var podResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// podWatch knows the metadata of the node's pods. Nothing on the way to a
// pod's start depends on it: it tells of deletions, while containers are held
// at the gate, and of pods that are long gone.
type podWatch struct {
	informer cache.SharedIndexInformer
}

// newPodWatch makes a watch; gone is called for every pod that is being, or
// was, deleted.
func newPodWatch(client metadata.Interface, node string, gone func(attachment.PodRef)) (*podWatch, error) {
	informer := metadatainformer.NewFilteredMetadataInformer(client, podResource, metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
		}).Informer()
	told := func(obj any) {
		if m := metaOf(obj); m != nil && m.DeletionTimestamp != nil {
			gone(podRefOf(m))
		}
	}
	if err := informer.SetTransform(slim); err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    told,
		UpdateFunc: func(_, obj any) { told(obj) },
		DeleteFunc: func(obj any) {
			if m := metaOf(obj); m != nil {
				gone(podRefOf(m))
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	return &podWatch{informer: informer}, nil
}

// slim drops what nobody here reads.
func slim(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.ManagedFields, m.Labels, m.OwnerReferences = nil, nil, nil
	}
	return obj, nil
}

func metaOf(obj any) *metav1.PartialObjectMetadata {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	m, _ := obj.(*metav1.PartialObjectMetadata)
	return m
}

func podRefOf(m *metav1.PartialObjectMetadata) attachment.PodRef {
	return attachment.PodRef{Namespace: m.Namespace, Name: m.Name, UID: string(m.UID)}
}

// find returns the pod as last seen; nil when it is not known, or another one
// has its name.
func (w *podWatch) find(pod attachment.PodRef) *metav1.PartialObjectMetadata {
	if w == nil {
		return nil
	}
	obj, found, err := w.informer.GetStore().GetByKey(pod.Namespace + "/" + pod.Name)
	if m := metaOf(obj); err == nil && found && m != nil && string(m.UID) == pod.UID {
		return m
	}
	return nil
}

// going reports whether the pod is known to be under deletion.
func (w *podWatch) going(pod attachment.PodRef) bool {
	m := w.find(pod)
	return m != nil && m.DeletionTimestamp != nil
}

// absent reports whether the API server has no such pod on this node. It is
// false while that is not known.
func (w *podWatch) absent(pod attachment.PodRef) bool {
	return w != nil && w.informer.HasSynced() && w.find(pod) == nil
}

// podGone releases the containers of a deleted pod that wait at the gate: the
// kubelet would wait with them, and delete nothing meanwhile.
func (d *Driver) podGone(pod attachment.PodRef) {
	records := networksIn(d.store.ForPod(pod.UID))
	if len(records) == 0 || !d.jobs.running(pod.UID) && !unattached(records) {
		return
	}
	d.jobs.forget(pod.UID, "", errPodGoing)
	d.jobs.group.Go(func() {
		ctx, cancel := context.WithTimeoutCause(d.withPod(d.jobs.base, pod), unprepareTime, errors.New("the time for releasing a deleted pod is over"))
		defer cancel()
		unlock, err := d.pods.lock(ctx, pod.UID)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Containers are held until the gate's time is over")
			return
		}
		defer unlock()
		d.refuse(ctx, attachment.Sandbox{Pod: pod}, errPodGoing)
	})
}

// unattached reports whether the pod, as recorded, has yet to be attached.
func unattached(records []checkpoint.Record) bool {
	return slices.ContainsFunc(records, func(r checkpoint.Record) bool { return r.Phase != checkpoint.Attached })
}

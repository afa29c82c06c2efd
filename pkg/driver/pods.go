package driver

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podlog"
)

// podWatch knows the node's pods. No pod's start waits for it: it tells of
// deletions, while containers are held at the gate, of pods that are long gone,
// and for whose sandboxes a hook need not wait.
type podWatch struct {
	informer cache.SharedIndexInformer
}

// knownPod is what is kept of a pod.
type knownPod struct {
	metav1.PartialObjectMetadata
	restart corev1.RestartPolicy
	// references is nil for a pod without claims.
	references *podReferences
}

// newPodWatch makes a watch; gone is called for every pod that is being, or
// was, deleted.
func newPodWatch(client kubernetes.Interface, node string, gone func(attachment.PodRef)) (*podWatch, error) {
	informer := coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
		})
	told := func(obj any) {
		if m := metaOf(obj); m != nil && m.DeletionTimestamp != nil {
			gone(podRefOf(m))
		}
	}
	if err := informer.SetTransform(slimPod); err != nil {
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

// slimPod drops what nobody here reads.
func slimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return &knownPod{
		PartialObjectMetadata: metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Annotations: pod.Annotations, DeletionTimestamp: pod.DeletionTimestamp,
		}},
		restart:    pod.Spec.RestartPolicy,
		references: referencesOf(pod),
	}, nil
}

func metaOf(obj any) *metav1.PartialObjectMetadata {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	switch m := obj.(type) {
	case *metav1.PartialObjectMetadata:
		return m
	case *knownPod:
		return &m.PartialObjectMetadata
	}
	return nil
}

func podRefOf(m *metav1.PartialObjectMetadata) attachment.PodRef {
	return attachment.PodRef{Namespace: m.Namespace, Name: m.Name, UID: string(m.UID)}
}

// find returns the pod as last seen; nil when it is not known, or another one
// has its name.
func (w *podWatch) Find(pod attachment.PodRef) *metav1.PartialObjectMetadata {
	if known := w.known(pod); known != nil {
		return &known.PartialObjectMetadata
	}
	return nil
}

func (w *podWatch) known(pod attachment.PodRef) *knownPod {
	if w == nil {
		return nil
	}
	obj, found, err := w.informer.GetStore().GetByKey(pod.Namespace + "/" + pod.Name)
	if known, ok := obj.(*knownPod); err == nil && found && ok && string(known.UID) == pod.UID {
		return known
	}
	return nil
}

// restarts reports whether the pod is known to start a container again that
// could not be started.
func (w *podWatch) restarts(pod attachment.PodRef) bool {
	known := w.known(pod)
	return known != nil && known.restart != "" && known.restart != corev1.RestartPolicyNever
}

// going reports whether the pod is known to be under deletion.
func (w *podWatch) going(pod attachment.PodRef) bool {
	m := w.Find(pod)
	return m != nil && m.DeletionTimestamp != nil
}

// absent reports whether the API server has no such pod on this node. It is
// false while that is not known.
func (w *podWatch) Absent(pod attachment.PodRef) bool {
	return w != nil && w.informer.HasSynced() && w.Find(pod) == nil
}

// podGone releases the containers of a deleted pod that wait at the gate: the
// kubelet would wait with them, and delete nothing meanwhile.
func (d *Driver) podGone(pod attachment.PodRef) {
	records := checkpoint.Networks(d.store.ForPod(pod.UID))
	if len(records) == 0 || !d.jobs.running(pod.UID) && !held(records) {
		return
	}
	d.jobs.forget(pod.UID, "", errPodGoing)
	d.jobs.group.Go(func() {
		ctx, cancel := context.WithTimeoutCause(podlog.WithPod(d.jobs.base, pod), attach.DetachTime, reason.Errorf(reason.DELUnfinished, "the time for releasing a deleted pod is over"))
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

// held reports whether the gate holds containers of a pod with these records.
func held(records []checkpoint.Record) bool {
	return slices.ContainsFunc(records, func(r checkpoint.Record) bool {
		return r.Phase != checkpoint.Attached || networkstatus.Missing(r)
	})
}

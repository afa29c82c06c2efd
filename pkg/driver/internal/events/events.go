// Package events sends the driver's Events. Their reasons are in package reason.
package events

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// MaxMessage is the API's limit for the message of an Event, in bytes.
const MaxMessage = 1024

// Recorder queues Events; a broadcaster sends them in the background.
type Recorder struct {
	record.EventRecorder
	node        string
	broadcaster record.EventBroadcaster
}

// NewRecorder returns a Recorder for a node. It sends nothing before Start.
func NewRecorder(ctx context.Context, node string) *Recorder {
	b := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx))) // Shutdown ends it
	return &Recorder{
		node: node, broadcaster: b,
		EventRecorder: b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "nadra", Host: node}),
	}
}

// Start begins to send Events.
func (r *Recorder) Start(client kubernetes.Interface) {
	r.broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: client.CoreV1().Events("")})
}

// Shutdown ends the sending.
func (r *Recorder) Shutdown() { r.broadcaster.Shutdown() }

// Pod queues an Event on a pod.
func (r *Recorder) Pod(pod attachment.PodRef, eventType, reason, message string) {
	r.event(&corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: types.UID(pod.UID),
	}, eventType, reason, message)
}

// Node queues an Event on this Node. It names the Node as the kubelet does.
func (r *Recorder) Node(eventType, reason, message string) {
	r.event(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: r.node, UID: types.UID(r.node)}, eventType, reason, message)
}

// Network queues an Event on a NetworkAttachmentDefinition.
func (r *Recorder) Network(ref attachment.NetworkRef, uid types.UID, eventType, reason, message string) {
	r.event(&corev1.ObjectReference{
		APIVersion: "k8s.cni.cncf.io/v1", Kind: "NetworkAttachmentDefinition", Namespace: ref.Namespace, Name: ref.Name, UID: uid,
	}, eventType, reason, message)
}

func (r *Recorder) event(ref *corev1.ObjectReference, eventType, reason, message string) {
	r.Event(ref, eventType, reason, words.Short(message, MaxMessage))
}

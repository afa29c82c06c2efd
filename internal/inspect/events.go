package inspect

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Reasons of events, the driver's and the kubelet's.
const (
	eventPrepareFailed   = "FailedPrepareNetwork"
	eventAttaching       = "AttachingNetwork"
	eventAttachFailed    = "FailedAttachNetwork"
	eventReleaseFailed   = "FailedReleaseNetwork"
	eventNoClaim         = "FailedNoClaim"
	eventUnavailable     = "NetworkUnavailable"
	eventAvailable       = "NetworkAvailable"
	eventKubeletPrepare  = "FailedPrepareDynamicResources"
	eventKubeletSandbox  = "FailedCreatePodSandBox"
	eventContainerFailed = "Failed"
	eventClaimFailed     = "FailedResourceClaimCreation"
)

// lastOf is the newest event on the pod that has one of the reasons; nil for
// none.
func (c *chain) lastOf(reasons ...string) *corev1.Event {
	return c.newest(func(e *corev1.Event) bool {
		o := e.InvolvedObject
		return o.Kind == "Pod" && o.Name == c.pod.Name && o.Namespace == c.pod.Namespace &&
			(o.UID == "" || o.UID == c.pod.UID) && slices.Contains(reasons, e.Reason)
	})
}

// withdrawn are the newest events of nodes that have withdrawn a network and
// not said that it is back, by node.
func (c *chain) withdrawn(ref attachment.NetworkRef) []*corev1.Event {
	last := map[string]*corev1.Event{}
	for _, e := range c.in.Events {
		o := e.InvolvedObject
		if o.Kind != "NetworkAttachmentDefinition" || o.Namespace != ref.Namespace || o.Name != ref.Name ||
			e.Reason != eventUnavailable && e.Reason != eventAvailable {
			continue
		}
		if before := last[e.Source.Host]; before == nil || !at(e).Before(at(before)) {
			last[e.Source.Host] = e
		}
	}
	var out []*corev1.Event
	for _, e := range last {
		if e.Reason == eventUnavailable {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Event) int { return at(a).Compare(at(b)) })
	return out
}

func (c *chain) newest(is func(*corev1.Event) bool) *corev1.Event {
	var last *corev1.Event
	for _, e := range c.in.Events {
		if is(e) && (last == nil || !at(e).Before(at(last))) {
			last = e
		}
	}
	return last
}

// at is when an event was seen last.
func at(e *corev1.Event) time.Time {
	out := e.LastTimestamp.Time
	if e.EventTime.After(out) {
		out = e.EventTime.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(out) {
		out = e.Series.LastObservedTime.Time
	}
	return out
}

package inspect

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Reasons of the kubelet's and the claim controller's Events.
const (
	eventKubeletPrepare  = "FailedPrepareDynamicResources"
	eventKubeletSandbox  = "FailedCreatePodSandBox"
	eventContainerFailed = "Failed"
	eventClaimFailed     = "FailedResourceClaimCreation"
)

// podEvents finds Events about a pod and its networks.
type podEvents struct {
	pod *corev1.Pod
	all []*corev1.Event
}

// last returns the newest event on the pod that has one of the reasons, or nil.
func (p podEvents) last(reasons ...string) *corev1.Event {
	var last *corev1.Event
	for _, e := range p.all {
		o := e.InvolvedObject
		if o.Kind != "Pod" || o.Name != p.pod.Name || o.Namespace != p.pod.Namespace ||
			o.UID != "" && o.UID != p.pod.UID || !slices.Contains(reasons, e.Reason) {
			continue
		}
		if last == nil || !seen(e).Before(seen(last)) {
			last = e
		}
	}
	return last
}

// unavailable returns the events of the nodes on which a network is unavailable: the
// newest event of each node decides.
func unavailable(all []*corev1.Event, ref attachment.NetworkRef) []*corev1.Event {
	last := map[string]*corev1.Event{}
	for _, e := range all {
		o := e.InvolvedObject
		if o.Kind != "NetworkAttachmentDefinition" || o.Namespace != ref.Namespace || o.Name != ref.Name ||
			e.Reason != reason.EventNetworkUnavailable && e.Reason != reason.EventNetworkAvailable {
			continue
		}
		if before := last[e.Source.Host]; before == nil || !seen(e).Before(seen(before)) {
			last[e.Source.Host] = e
		}
	}
	var out []*corev1.Event
	for _, e := range last {
		if e.Reason == reason.EventNetworkUnavailable {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Event) int { return seen(a).Compare(seen(b)) })
	return out
}

// seen returns the time at which an event was last observed.
func seen(e *corev1.Event) time.Time {
	out := e.LastTimestamp.Time
	if e.EventTime.After(out) {
		out = e.EventTime.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(out) {
		out = e.Series.LastObservedTime.Time
	}
	return out
}

package inspect

import (
	"cmp"
	"maps"
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
		if last == nil || !Seen(e).Before(Seen(last)) {
			last = e
		}
	}
	return last
}

// unavailable returns why a network is unavailable on nodes, or "": the newest event of each node decides, unless it
// is about a deleted network of the same name or one of the nodes that offer the network again.
func (x *index) unavailable(ref attachment.NetworkRef, offering []string) string {
	last := map[string]*corev1.Event{}
	for _, e := range x.events {
		o := e.InvolvedObject
		if o.Kind != "NetworkAttachmentDefinition" || o.Namespace != ref.Namespace || o.Name != ref.Name || slices.Contains(offering, e.Source.Host) ||
			e.Reason != reason.EventNetworkUnavailable && e.Reason != reason.EventNetworkAvailable {
			continue
		}
		if nad := x.networks[ref]; nad != nil && o.UID != "" && o.UID != nad.UID {
			continue
		}
		if before := last[e.Source.Host]; before == nil || !Seen(e).Before(Seen(before)) {
			last[e.Source.Host] = e
		}
	}
	var why []string
	for _, e := range slices.SortedFunc(maps.Values(last), func(a, b *corev1.Event) int {
		return cmp.Or(Seen(a).Compare(Seen(b)), cmp.Compare(a.Source.Host, b.Source.Host))
	}) {
		if e.Reason == reason.EventNetworkUnavailable {
			why = append(why, e.Message)
		}
	}
	return some(why)
}

// Seen returns the time at which an event was last observed.
func Seen(e *corev1.Event) time.Time {
	out := e.LastTimestamp.Time
	if e.EventTime.After(out) {
		out = e.EventTime.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(out) {
		out = e.Series.LastObservedTime.Time
	}
	return out
}

package admission

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// asks reports whether a pod has an annotation of nadra or Multus. The matchConditions of the webhook
// pods.nadra.dev have the same condition.
func asks(pod *corev1.Pod, o Options) bool {
	return strings.TrimSpace(attachment.NetworksText(pod.Annotations)) != "" || asksForDefault(pod, o)
}

// asksForDefault reports whether a pod replaces its default network. Beside Multus, that is Multus'
// part, and does not concern nadra.
func asksForDefault(pod *corev1.Pod, o Options) bool {
	return !o.BesideMultus && strings.TrimSpace(pod.Annotations[attachment.DefaultNetworkAnnotation]) != ""
}

// namesTwice reports whether a pod has both annotations that name networks.
func namesTwice(pod *corev1.Pod) bool {
	return attachment.NamesOwn(pod.Annotations) && strings.TrimSpace(pod.Annotations[attachment.NetworksAnnotation]) != ""
}

// networks returns the text of the annotation that names the pod's networks.
func (a admitted) networks() string { return attachment.NetworksText(a.pod.Annotations) }

// networksKey returns the annotation that names the pod's networks, or that will name them.
func (a admitted) networksKey() string {
	key := attachment.NetworksKey(a.pod.Annotations)
	if _, found := a.pod.Annotations[key]; !found && a.options.BesideMultus {
		return attachment.OwnNetworksAnnotation
	}
	return key
}

// annotatedFor adds the edit that gives the pod's annotation the name by which its owner finds it.
// Multus goes by its own; nadra goes by either, but beside Multus only by nadra's.
func (a admitted) annotatedFor(owner string, d Decision) Decision {
	key, want := a.networksKey(), attachment.NetworksAnnotation
	if owner == v1alpha1.OwnerNadra && d.Outcome != OnMultus {
		if !a.options.BesideMultus {
			return d
		}
		want = attachment.OwnNetworksAnnotation
	}
	renamed := slices.ContainsFunc(d.Edits, func(e translate.Edit) bool { return e.Op == translate.Rename })
	if _, found := a.pod.Annotations[key]; !found || key == want || renamed || d.Outcome == Refused {
		return d
	}
	_, taken := a.pod.Annotations[want]
	d.Edits = append(d.Edits, translate.RenameAnnotation(annotationsPath, key, want, taken)...)
	if d.Outcome == Untouched {
		d.Outcome = Converted
	}
	return d
}

var annotationsPath = translate.Path{"metadata", "annotations"}

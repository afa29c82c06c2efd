package inspect

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/admission"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// owner explains which program serves the pod and why, if Multus stays on nadra's nodes: there the node does
// not show it. It returns nil elsewhere, and for pods without networks.
func (s *subject) owner() *Step {
	if s.in.Installation == nil || !s.in.Installation.BesideMultus() || !s.wish.asks() || s.pod.Spec.HostNetwork {
		return nil
	}
	serves, step := s.served()
	if step.State != StepOK {
		return &step
	}
	next, err := admission.Serves(s.asWritten(), s.pod.Namespace, s.in.Installation.Admission(), admission.Lookups{NamespaceLabels: s.namespaceLabels})
	switch {
	case s.byHand():
		step.Detail = withReason(step.Detail, serves, "its claim")
	case s.in.Namespace == nil && !hasOwnerLabel(s.pod):
		step.Detail += "; " + notRead
	case err != nil:
		step.Detail += "; a new pod would be refused: " + err.Error()
	case next.Owner == serves:
		step.Detail = withReason(step.Detail, serves, next.By)
	case serves == v1alpha1.OwnerNadra:
		step.Detail = withReason(step.Detail, serves, "the claim in its manifest, or by a label that has changed since: "+next.By+" says Multus")
	default:
		step.Detail += "; " + nameOfOwner(next.Owner) + " serves the pods that its workload creates from now on, by " + next.By
	}
	return &step
}

const notRead = "why is unknown, because you may not read its namespace"

// withReason adds to a detail what decides who serves the pod.
func withReason(detail, owner, by string) string {
	start := nameOfOwner(owner) + " serves it"
	return start + ", by " + by + strings.TrimPrefix(detail, start)
}

// byHand reports whether the pod has a claim for networks that no conversion has written.
func (s *subject) byHand() bool {
	return slices.ContainsFunc(s.wish.wants, func(w want) bool { return w.entry != nil && !w.unknown && !converted(w.entry) })
}

// served returns the program that serves the pod, by what its manifest has, and the step that says so. The step fails
// if both programs do. It does not ask who has attached networks, as attachment.AttacherOf does.
func (s *subject) served() (string, Step) {
	claimed := slices.ContainsFunc(s.wish.wants, func(w want) bool { return w.entry != nil && !w.unknown })
	ofMultus := strings.TrimSpace(s.pod.Annotations[attachment.NetworksAnnotation]) != ""
	switch {
	case claimed && ofMultus:
		step := failed("the pod has claims of nadra and the annotation "+attachment.NetworksAnnotation+", so nadra and Multus attach the same networks", reason.OfConversion,
			"Recreate the pod: the webhook renames the annotation to "+attachment.OwnNetworksAnnotation+" when nadra serves it. Rename it in a converted manifest by kubectl nadra convert --beside-multus.")
		return v1alpha1.OwnerNadra, step
	case attachment.NamesOwn(s.pod.Annotations):
		return v1alpha1.OwnerNadra, ok("nadra serves it; its networks are in the annotation " + attachment.OwnNetworksAnnotation + ", so that Multus attaches the default network only")
	case claimed:
		return v1alpha1.OwnerNadra, ok("nadra serves it")
	}
	return v1alpha1.OwnerMultus, ok("Multus serves it")
}

// asWritten returns the pod without what a conversion has added, which says nothing about why it was converted.
func (s *subject) asWritten() *corev1.Pod {
	out := s.pod.DeepCopy()
	out.Spec.NodeName = ""
	made := slices.ContainsFunc(out.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool { return converted(&c) })
	out.Spec.ResourceClaims = slices.DeleteFunc(out.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool { return converted(&c) })
	if text, found := out.Annotations[attachment.OwnNetworksAnnotation]; found && made {
		delete(out.Annotations, attachment.OwnNetworksAnnotation)
		out.Annotations[attachment.NetworksAnnotation] = text
	}
	return out
}

func (s *subject) namespaceLabels(string) map[string]string {
	if s.in.Namespace == nil {
		return nil
	}
	return s.in.Namespace.Labels
}

func hasOwnerLabel(pod *corev1.Pod) bool { return pod.Labels[v1alpha1.OwnerLabel] != "" }

// nameOfOwner returns the program's name for a text.
func nameOfOwner(owner string) string {
	if owner == v1alpha1.OwnerMultus {
		return "Multus"
	}
	return "nadra"
}

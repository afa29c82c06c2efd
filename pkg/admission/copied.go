package admission

import (
	"encoding/json"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// withoutNetworks is the warning for a copy of a pod.
const withoutNetworks = "the pod refers to claims of nadra and has no annotation with networks, as a copy by kubectl debug --copy-to: " +
	"it starts without these networks. To keep them, copy it with --keep-annotations"

// claimsAlone decides about a pod without the annotation. A pod with claims of a conversion is a copy
// (kubectl debug --copy-to drops annotations, keeps claims, and adds a container without a reference), or a
// conversion has dropped its annotation. It is a copy if admission made all templates: it did that for an
// annotation. A copy loses the claims, so that it starts as with Multus, and does not take the addresses of
// the pod. Any other pod keeps them, and each container refers to them.
func (a admitted) claimsAlone() Decision {
	d := Decision{Outcome: Untouched}
	if !a.converted() {
		return d
	}
	if a.isCopy() {
		return a.copied()
	}
	a.hand = networkClaimsOf(a.pod, a.namespace, a.lookups, func(corev1.PodResourceClaim) bool { return true })
	edits, err := a.references()
	if err != nil {
		return refused(err)
	}
	if d.Edits = edits; len(edits) > 0 {
		d.Outcome = Converted
	}
	return d
}

// isCopy reports whether the pod is a copy of a pod whose claims admission made.
func (a admitted) isCopy() bool {
	return !asks(a.pod, a.options) && a.converted() && len(a.hand) == 0 &&
		!slices.ContainsFunc(a.pod.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool { return isMade(c) && !ofAdmission(c, a.namespace, a.lookups) })
}

// copied decides about a copy as about the pod that it becomes without its claims, which may get default networks: so a
// second pass changes nothing.
func (a admitted) copied() Decision {
	edits := dropClaims(a.pod)
	manifest, err := patched(a.manifest, edits)
	if err != nil {
		return refused(reason.Errorf(reason.ObjectNotRead, "reading the pod: %w", err))
	}
	d := Pod(manifest, a.namespace, a.options, a.lookups)
	if d.Outcome == Refused {
		return d
	}
	if d.Outcome == Untouched {
		d.Outcome = Converted
	}
	d.Edits, d.Warnings = append(edits, d.Edits...), append([]string{withoutNetworks}, d.Warnings[:min(len(d.Warnings), maxWarnings-1)]...)
	return d
}

// patched returns a manifest with edits.
func patched(manifest []byte, edits []translate.Edit) ([]byte, error) {
	text, err := json.Marshal(edits)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, err
	}
	return patch.Apply(manifest)
}

// ofAdmission reports whether admission made the template of a claim, and nobody has applied it since.
func ofAdmission(c corev1.PodResourceClaim, namespace string, l Lookups) bool {
	if l.Template == nil {
		return false
	}
	t := l.Template(namespace, *c.ResourceClaimTemplateName)
	return t != nil && translate.Collectable(t)
}

// dropClaims returns the edits that remove a pod's claims of a conversion, and all references to them: one edit for each
// container, because a container may have as many references as fit into an object. An edit moves the entries behind its
// own, so the last entry comes first.
func dropClaims(pod *corev1.Pod) (edits []translate.Edit) {
	dropped := map[string]bool{}
	spec := translate.Path{"spec"}
	for i, c := range slices.Backward(pod.Spec.ResourceClaims) {
		if isMade(c) {
			dropped[c.Name] = true
			edits = append(edits, translate.Edit{Op: translate.Remove, Path: spec.Child("resourceClaims").Index(i)})
		}
	}
	eachContainer(pod, func(at translate.Path, c corev1.Container) {
		kept := slices.DeleteFunc(slices.Clone(c.Resources.Claims), func(r corev1.ResourceClaim) bool { return dropped[r.Name] })
		switch at = at.Child("resources", "claims"); {
		case len(kept) == len(c.Resources.Claims):
		case len(kept) == 0:
			edits = append(edits, translate.Edit{Op: translate.Remove, Path: at})
		default:
			edits = append(edits, translate.Edit{Op: translate.Replace, Path: at, Value: kept})
		}
	})
	return edits
}

// eachContainer visits the init containers and containers of a pod, with their paths.
func eachContainer(pod *corev1.Pod, visit func(at translate.Path, c corev1.Container)) {
	spec := translate.Path{"spec"}
	for i, c := range pod.Spec.InitContainers {
		visit(spec.Child("initContainers").Index(i), c)
	}
	for i, c := range pod.Spec.Containers {
		visit(spec.Child("containers").Index(i), c)
	}
}

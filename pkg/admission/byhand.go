package admission

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// handClaim is a handwritten entry of a pod's spec.resourceClaims that requests networks.
type handClaim struct {
	index int
	// name is the name by which containers refer to the entry.
	name string
	// source is the object with the claim's spec: "template lan" or "ResourceClaim lan".
	source   string
	requests attachment.ClaimRequests
}

func (c handClaim) String() string {
	return fmt.Sprintf("spec.resourceClaims[%d] (%s)", c.index, c.source)
}

// handClaimsOf returns the handwritten claims of a pod in their order. It skips claims that do not
// exist yet; the node refuses their pod if a container does not refer to them.
func handClaimsOf(pod *corev1.Pod, namespace string, l Lookups) []handClaim {
	return networkClaimsOf(pod, namespace, l, func(c corev1.PodResourceClaim) bool { return !isMade(c) })
}

// networkClaimsOf returns the claims of a pod that request networks, of the entries that are wanted.
func networkClaimsOf(pod *corev1.Pod, namespace string, l Lookups, wanted func(corev1.PodResourceClaim) bool) []handClaim {
	var out []handClaim
	for i, c := range pod.Spec.ResourceClaims {
		if !wanted(c) {
			continue
		}
		spec, source := specOf(c, namespace, l)
		if spec == nil {
			continue
		}
		requests := attachment.RequestsOfClaim(*spec, namespace, l.Class)
		if len(requests.Names) > 0 || requests.Err != nil {
			out = append(out, handClaim{index: i, name: c.Name, source: source, requests: requests})
		}
	}
	return out
}

// specOf returns the spec of a claim, nil if there is none, and the object that has it.
func specOf(c corev1.PodResourceClaim, namespace string, l Lookups) (spec *resourceapi.ResourceClaimSpec, source string) {
	switch {
	case c.ResourceClaimTemplateName != nil:
		name := *c.ResourceClaimTemplateName
		if l.Template == nil {
			return nil, ""
		}
		if t := l.Template(namespace, name); t != nil {
			return &t.Spec.Spec, "template " + name
		}
	case c.ResourceClaimName != nil && l.Claim != nil:
		if claim := l.Claim(namespace, *c.ResourceClaimName); claim != nil {
			return &claim.Spec, "ResourceClaim " + claim.Name
		}
	}
	return nil, ""
}

// alone reports whether handwritten claims request all networks of the pod: it has no annotation, or
// the one that complete wrote. Other rules refuse a label that contradicts the claims.
func (a admitted) alone() bool {
	if len(a.hand) == 0 || asksForDefault(a.pod, a.options) || a.converted() || a.pod.Labels[v1alpha1.OwnerLabel] == v1alpha1.OwnerMultus && asks(a.pod, a.options) {
		return false
	}
	selections, unknown := networksOf(a.hand)
	return !asks(a.pod, a.options) || unknown == "" && a.names(selections)
}

// names reports whether the annotation names exactly the given networks.
func (a admitted) names(selections []attachment.Selection) bool {
	there, err := attachment.ParseSelections(a.networks(), a.namespace)
	return err == nil && attachment.SameNetworks(there, selections)
}

// complete makes every container of a pod refer to its handwritten claims, so that the gate holds
// the containers. It also writes the claims' networks into the annotation, for consumers such as
// multi-networkpolicy, and that it did so. A pod whose label leaves it to Multus gets no annotation, because Multus
// would attach its networks.
func (a admitted) complete() Decision {
	d := Decision{Outcome: Untouched}
	edits, err := a.references()
	if err != nil {
		return refused(err)
	}
	selections, unknown := networksOf(a.hand)
	if err := attachment.CheckLimits(selections); err != nil {
		return refused(err)
	}
	switch {
	case strings.TrimSpace(a.networks()) != "":
		if unknown != "" || !a.names(selections) {
			d.Warnings = append(d.Warnings, warning(translate.ClaimedByHand, a.hand[0].String()))
		}
	case a.pod.Labels[v1alpha1.OwnerLabel] == v1alpha1.OwnerMultus:
	case unknown != "":
		d.Warnings = append(d.Warnings, warning(translate.ClaimUnseen, unknown))
	default:
		text := attachment.NetworksValue(selections)
		edits = append(edits, annotate(a.pod, map[string]string{a.networksKey(): text, v1alpha1.DescribedAnnotation: text})...)
	}
	if d.Edits = edits; len(edits) > 0 {
		d.Outcome = Converted
	}
	return d
}

// networksOf returns the networks of all claims, in the order in which the driver attaches them.
// unknown says why the list is incomplete, if it is.
func networksOf(claims []handClaim) (selections []attachment.Selection, unknown string) {
	return attachment.SelectionsOfClaims(claims, func(c handClaim) (attachment.ClaimRequests, string) { return c.requests, c.source })
}

// annotate returns the edits that set annotations of a pod. It adds missing parent objects, because
// a JSON Patch does not.
func annotate(pod *corev1.Pod, values map[string]string) []translate.Edit {
	at := annotationsPath
	switch {
	case reflect.ValueOf(pod.ObjectMeta).IsZero():
		return []translate.Edit{{Op: translate.Add, Path: at[:1], Value: map[string]any{"annotations": values}}}
	case pod.Annotations == nil:
		return []translate.Edit{{Op: translate.Add, Path: at, Value: values}}
	}
	var edits []translate.Edit
	for _, key := range slices.Sorted(maps.Keys(values)) {
		edits = append(edits, translate.Edit{Op: translate.Add, Path: at.Child(key), Value: values[key]})
	}
	return edits
}

// references returns the edits by which containers refer to the claims. It skips containers that
// refer to a request for a network, because the gate holds them. It refuses claims beyond a limit.
func (a admitted) references() (edits []translate.Edit, err error) {
	for _, c := range a.hand {
		if c.requests.Err != nil {
			return nil, fmt.Errorf("reading %s: %w", c, c.requests.Err)
		}
	}
	eachContainer(a.pod, func(at translate.Path, c corev1.Container) {
		if len(a.hand) == 0 || slices.ContainsFunc(c.Resources.Claims, a.gates) {
			return
		}
		missing := a.missing(c.Resources.Claims)
		if len(missing) == 0 && err == nil {
			err = reason.Errorf(reason.ContainerWithoutClaim, "container %s could start before the pod's networks are attached: it refers to another request of %s, "+
				"and a container can refer to a claim only once: request the networks by a claim of their own, or refer to the whole claim in resources.claims of the container",
				c.Name, a.hand[0].source)
		}
		edits = append(edits, referTo(at.Child("resources"), c.Resources, missing)...)
	})
	return edits, err
}

// gates reports whether a container's reference adds the gate to it: a reference to a whole claim for
// networks, or to a request for a network.
func (a admitted) gates(r corev1.ResourceClaim) bool {
	return slices.ContainsFunc(a.hand, func(c handClaim) bool {
		return c.name == r.Name && (r.Request == "" || slices.Contains(c.requests.Names, r.Request))
	})
}

// missing returns the references that a container lacks and can have. For a claim with other
// requests, it refers to one network only: the other devices may be for one container.
func (a admitted) missing(there []corev1.ResourceClaim) []corev1.ResourceClaim {
	var out []corev1.ResourceClaim
	for _, c := range a.hand {
		if slices.ContainsFunc(there, func(r corev1.ResourceClaim) bool { return r.Name == c.name }) {
			continue
		}
		r := corev1.ResourceClaim{Name: c.name}
		if c.requests.Others {
			r.Request = c.requests.Names[0]
		}
		out = append(out, r)
	}
	return out
}

// referTo returns the edits that add references to a container's resources, which may be empty.
func referTo(at translate.Path, r corev1.ResourceRequirements, missing []corev1.ResourceClaim) []translate.Edit {
	if len(r.Limits)+len(r.Requests)+len(r.Claims) == 0 {
		return []translate.Edit{{Op: translate.Add, Path: at, Value: corev1.ResourceRequirements{Claims: missing}}}
	}
	return translate.AppendEdits(at.Child("claims"), len(r.Claims) == 0, missing...)
}

package translate

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// handClaim is an entry of a pod's spec.resourceClaims that requests networks by a template
// that was written by hand.
type handClaim struct {
	spot
	template string
	requests attachment.ClaimRequests
}

// handClaims returns the handwritten claims of a pod in their order. It skips claims whose
// templates are unknown.
func (e *environment) handClaims(p pod) []handClaim {
	var out []handClaim
	for _, item := range p.claims() {
		name := item.get("resourceClaimTemplateName").str()
		if name == "" || MadeTemplate(name) {
			continue
		}
		t := e.template(p.object.ref.Namespace, name)
		if t == nil {
			continue
		}
		if requests := attachment.RequestsOfClaim(t.Spec, p.object.ref.Namespace, e.class); len(requests.Names) > 0 || requests.Err != nil {
			out = append(out, handClaim{item, name, requests})
		}
	}
	return out
}

// class returns a DeviceClass of the input, nil if it is unknown.
func (e *environment) class(name string) *resourceapi.DeviceClass { return e.classSpecs[name] }

// handNetworks returns the networks of handwritten claims. unknown says why the list is
// incomplete, if it is.
func handNetworks(claims []handClaim) (selections []attachment.Selection, unknown string) {
	return attachment.SelectionsOfClaims(claims, func(c handClaim) (attachment.ClaimRequests, string) { return c.requests, "template " + c.template })
}

// claimedByHand reports whether handwritten claims request exactly the networks of the
// annotation, which then is only for its other readers.
func (r *request) claimedByHand() bool {
	claims := r.hand()
	selections, unknown := handNetworks(claims)
	return len(claims) > 0 && unknown == "" && !slices.ContainsFunc(claims, func(c handClaim) bool { return c.requests.Err != nil }) &&
		attachment.SameNetworks(r.selections, selections)
}

// checkHandClaims reports handwritten claims of networks beside an annotation that names
// others.
func (r podRules) checkHandClaims() {
	for _, c := range r.hand() {
		if c.requests.Err != nil {
			r.addAt(LimitExceeded, c.spot, "template %s: %s", c.template, reason.Message(c.requests.Err))
			continue
		}
		selections, unknown := handNetworks([]handClaim{c})
		if unknown == "" {
			unknown = "requests " + attachment.NetworksValue(selections)
		}
		r.addAt(ClaimedByHand, c.spot, "template %s: %s", c.template, unknown)
	}
}

// unseen reports whether a pod has handwritten claims and no annotation in a cluster with
// MultiNetworkPolicies, which go by the annotation.
func (e *environment) unseen(p pod) bool {
	return len(e.policies) > 0 && !p.onHost() && len(e.handClaims(p)) > 0
}

// planUnseen reports a pod whose networks are hidden from network policies.
func (s subject) planUnseen() (networks, features []string) {
	claims := s.env.handClaims(s.pod)
	selections, unknown := handNetworks(claims)
	code, message := ClaimUnseen, unknown
	switch {
	case s.env.options.BesideMultus:
		code, message = AnnotationMoved, policyController+" reads it"
	case unknown == "":
		message = fmt.Sprintf("write the annotation %s: %s", attachment.NetworksAnnotation, attachment.NetworksValue(selections))
	}
	s.addAt(code, claims[0].spot, "%s", message)
	for _, selection := range selections {
		networks = append(networks, selection.Network.String())
		features = append(features, featuresOf(selection)...)
	}
	return networks, features
}

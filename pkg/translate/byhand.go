package translate

import (
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// handClaim is an entry of a pod's spec.resourceClaims for networks whose
// template somebody wrote.
type handClaim struct {
	path     Path
	node     *yaml.Node
	template string
	asked    attachment.Asked
}

// handClaims returns those of a pod whose templates are known, in their order.
func (e *environment) handClaims(p pod) []handClaim {
	var out []handClaim
	for i, item := range items(get(p.template, "spec", "resourceClaims")) {
		name := str(get(item, "resourceClaimTemplateName"))
		if name == "" || ours.MatchString(name) {
			continue
		}
		t := e.template(p.object.ref.Namespace, name)
		if t == nil {
			continue
		}
		if asked := attachment.AskedBy(t.Spec, p.object.ref.Namespace, e.class); len(asked.Requests) > 0 {
			out = append(out, handClaim{p.at.Child("spec", "resourceClaims").Index(i), item, name, asked})
		}
	}
	return out
}

// class returns a DeviceClass of the input, nil for an unknown one.
func (e *environment) class(name string) *resourceapi.DeviceClass { return e.classSpecs[name] }

// classOf reads the spec of a manifest. One that cannot be read says nothing.
func classOf(node *yaml.Node) *resourceapi.DeviceClass {
	class := &resourceapi.DeviceClass{}
	var raw any
	if node == nil || node.Decode(&raw) != nil {
		return class
	}
	text, err := json.Marshal(raw)
	if err != nil || json.Unmarshal(text, &class.Spec) != nil {
		return &resourceapi.DeviceClass{}
	}
	return class
}

// asksByHand returns the networks of all claims; unknown says why not all of
// them can be named.
func asksByHand(claims []handClaim) (selections []attachment.Selection, unknown string) {
	return attachment.AskedByAll(claims, func(c handClaim) (attachment.Asked, string) { return c.asked, "template " + c.template })
}

// claimed reports whether the pod's claims by hand ask for exactly the networks
// of its annotation: the webhook has written it, or somebody for whoever reads
// it.
func (p *planner) claimed() bool {
	claims := p.env.handClaims(p.pod)
	selections, unknown := asksByHand(claims)
	return len(claims) > 0 && unknown == "" && attachment.SameNetworks(p.selections, selections)
}

// checkHandClaims reports claims for networks beside another annotation.
func (p *planner) checkHandClaims() {
	for _, c := range p.env.handClaims(p.pod) {
		selections, unknown := asksByHand([]handClaim{c})
		if unknown == "" {
			unknown = "asks for " + attachment.NetworksValue(selections)
		}
		p.add(ClaimedByHand, c.path, p.pod.doc.at(c.node), "template %s: %s", c.template, unknown)
	}
}

// unseen reports whether a pod without the annotation has claims by hand where
// somebody enforces MultiNetworkPolicies, for which the annotation counts.
func (e *environment) unseen(p pod) bool {
	return len(e.policies) > 0 && str(get(p.template, "spec", "hostNetwork")) != "true" && len(e.handClaims(p)) > 0
}

// planUnseen reports a pod whose networks policies do not see.
func (p *planner) planUnseen() (networks, features []string) {
	claims := p.env.handClaims(p.pod)
	selections, unknown := asksByHand(claims)
	message := unknown
	if unknown == "" {
		message = fmt.Sprintf("the annotation is %s: %s", attachment.NetworksAnnotation, attachment.NetworksValue(selections))
	}
	p.add(ClaimUnseen, claims[0].path, p.pod.doc.at(claims[0].node), "%s", message)
	for _, s := range selections {
		networks = append(networks, s.Network.String())
		features = append(features, featuresOf(s)...)
	}
	return networks, features
}

package translate

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/internal/yamledit"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// subject is one pod or pod template to which the rules apply. Findings go to the reporter of
// the whole object.
type subject struct {
	*reporter
	pod pod
	env *environment
}

// request is a subject with the networks that its annotation asks for.
type request struct {
	subject
	annotation spot
	// names has the offsets of the networks' names in the annotation's value, by selection.
	names      map[int]int
	selections []attachment.Selection
	// hand returns the pod's handwritten claims, which it reads once.
	hand func() []handClaim
	// found has the networks that were looked up, nil for those that do not exist.
	found map[attachment.NetworkRef]*network
}

// plan is what to do with one pod or pod template.
type plan struct {
	edits     []Edit
	templates []*resourceapi.ResourceClaimTemplate
	networks  []string
	features  []string
	// attaches is set if the pod gets a network, by the annotation or by a claim of an earlier
	// conversion.
	attaches bool
}

// planPod applies all rules to a pod or pod template. The plan has no edits if a finding
// blocks, or if there is no network to attach.
func planPod(s subject) plan {
	if n := s.pod.template.annotation(attachment.DefaultNetworkAnnotation); n.node != nil && !s.env.options.BesideMultus {
		s.addAt(DefaultNetwork, n, "it asks for %s in place of the default network", n.str())
	}
	n := s.pod.networks()
	if n.node == nil {
		return s.planClaimAlone()
	}
	if other := s.pod.template.annotation(attachment.NetworksAnnotation); other.node != nil && other.node != n.node {
		s.addAt(TwoAnnotations, other, "the pod also has %s", attachment.OwnNetworksAnnotation)
		return plan{}
	}
	if claims := s.pod.claims(); len(claims) > v1alpha1.MaxPodClaims {
		s.addAt(LimitExceeded, s.pod.template.get("spec", "resourceClaims"),
			"the pod has %d claims, more than %d", len(claims), v1alpha1.MaxPodClaims)
		return plan{}
	}
	if containers := len(s.pod.containers()); containers > v1alpha1.MaxContainers {
		s.addAt(LimitExceeded, s.pod.template.get("spec", "containers"),
			"the pod has %d containers and init containers, more than %d", containers, v1alpha1.MaxContainers)
		return plan{}
	}
	r := readAnnotation(s, n)
	if r == nil {
		return plan{}
	}
	return r.plan()
}

// plan plans a pod whose annotation names networks.
func (r *request) plan() plan {
	out := plan{}
	for _, s := range r.selections {
		out.networks = append(out.networks, s.Network.String())
		out.features = append(out.features, featuresOf(s)...)
	}
	if r.claimedByHand() {
		return out
	}
	devices := newDeviceSources(r)
	podRules{r, devices}.check()
	matcher := &resourceMatcher{r, devices.references}
	if matcher.check() {
		out.features = append(out.features, featureResources)
	}
	if r.pod.onHost() {
		return out
	}
	out.attaches = true
	if r.pod.boundTo() != "" {
		out.edits = r.edits(nil, matcher)
		return out
	}
	queue := r.pod.queue()
	templates, err := r.templates(devices, queue != "")
	if err == nil && queue == "" && r.ofQueue() {
		templates, err = r.templates(devices, true)
	}
	if err != nil {
		r.addAt(Contradiction, r.annotation, "%s", reason.Message(err))
		return out
	}
	if claims := len(templates) + len(devices.claims); claims > v1alpha1.MaxPodClaims {
		r.addAt(LimitExceeded, r.annotation, "the networks need %d claims, and the pod has %d others, more than %d together", len(templates), len(devices.claims), v1alpha1.MaxPodClaims)
	}
	switch {
	case queue != "":
		r.addAt(KueueMapping, r.annotation, "the workload waits in queue %s", queue)
	case len(templates) > 1:
		r.addAt(SeveralClaims, r.annotation, "%d networks need %d claims", len(r.selections), len(templates))
	}
	out.templates = templates
	out.edits = r.edits(templates, matcher)
	return out
}

// templates returns the templates of the pod's claims. Of a workload that waits in a queue of Kueue, each claim has
// one network: Kueue counts a device for one request of a claim only, and a device of nadra is for several.
func (r *request) templates(devices *deviceSources, queued bool) ([]*resourceapi.ResourceClaimTemplate, error) {
	most := resourceapi.DeviceRequestsMaxSize
	if queued {
		most = 1
	}
	return templatesFor(r.selections, devices.devices(queued), most, r.object.ref.Namespace)
}

// ofQueue reports whether the pod's claims are those of a Job that waits in a queue: the pod lacks its label. Each
// requests one device of the class of all devices.
func (r *request) ofQueue() bool {
	found := false
	for _, item := range r.pod.claims() {
		name := item.get("resourceClaimTemplateName").str()
		if !MadeTemplate(name) {
			continue
		}
		t := r.env.template(r.object.ref.Namespace, name)
		if t == nil || len(t.Spec.Devices.Requests) != 1 || t.Spec.Devices.Requests[0].Exactly == nil ||
			t.Spec.Devices.Requests[0].Exactly.DeviceClassName != v1alpha1.DriverName {
			return false
		}
		found = true
	}
	return found
}

// edits returns the edits that convert the pod, nil if a finding blocks.
func (r *request) edits(templates []*resourceapi.ResourceClaimTemplate, matcher *resourceMatcher) []Edit {
	var names []string
	for _, t := range templates {
		names = append(names, t.Name)
		r.checkTemplate(t)
	}
	r.checkLeftOver(len(names))
	r.checkTypes()
	var edits []Edit
	var earlier []string
	alone := r.pod.boundTo() != ""
	if !alone {
		edits, earlier = r.claimReferences(names)
		edits = slices.Concat(edits, podInfoEdits(r.pod, r.env.options, matcher.references), nodeSelector{r}.edits())
	}
	if r.blocks() {
		return nil
	}
	switch {
	case len(earlier) == 0:
		edits = append(matcher.edits(), edits...)
	case !slices.Equal(earlier, names):
		matcher.checkMatchedBefore(earlier)
	}
	switch {
	case r.env.options.DropAnnotation && !alone && !r.keepsAnnotation():
		edits = append(edits, r.dropAnnotation())
	case r.env.options.BesideMultus && r.pod.networksKey() == attachment.NetworksAnnotation:
		r.checkMove()
		const own = attachment.OwnNetworksAnnotation
		edits = append(edits, RenameAnnotation(r.pod.template.path.Child("metadata", "annotations"), attachment.NetworksAnnotation, own, r.pod.template.annotation(own).node != nil)...)
	}
	for _, e := range edits {
		if !r.doc.Editable(e.Path) {
			r.add(SharedByAnchor, e.Path, r.doc.at(r.annotation.node), "it cannot be changed here alone")
			return nil
		}
	}
	return edits
}

// checkTypes reports fields of the claims that have a type which the API server refuses, so that they cannot be edited.
func (r *request) checkTypes() {
	check := func(at spot, kind yaml.Kind) {
		if !yamledit.IsEmpty(at.node) && at.node.Kind != kind {
			r.addAt(NotEditable, at, "the API server refuses its type")
		}
	}
	check(r.pod.template.get("spec", "resourceClaims"), yaml.SequenceNode)
	for _, c := range r.pod.containers() {
		check(c.get("resources"), yaml.MappingNode)
		check(c.get("resources", "claims"), yaml.SequenceNode)
	}
}

// addFor adds a finding about an element of the annotation.
func (r *request) addFor(selection int, code Code, format string, args ...any) {
	r.add(code, r.annotation.path, r.place(selection), format, args...)
}

// network looks up a network, each network once.
func (r *request) network(ref attachment.NetworkRef) (network, bool) {
	n, known := r.found[ref]
	if !known {
		if got, found := r.env.network(ref); found {
			n = &got
		}
		r.found[ref] = n
	}
	if n == nil {
		return network{}, false
	}
	return *n, true
}

// RenameAnnotation returns the edits that give an annotation another name. annotations is the path of the mapping;
// taken is set if it has an annotation of that name, which has no value.
func RenameAnnotation(annotations Path, from, to string, taken bool) (edits []Edit) {
	if taken {
		edits = append(edits, Edit{Op: Remove, Path: annotations.Child(to)})
	}
	return append(edits, Edit{Op: Rename, Path: annotations.Child(from), Value: to})
}

// dropAnnotation removes the annotation, and the mappings that have nothing else.
func (r *request) dropAnnotation() Edit {
	path := r.annotation.path
	if len(r.pod.template.get("metadata", "annotations").node.Content) == 2 {
		path = path[:len(path)-1]
		if len(r.pod.template.get("metadata").node.Content) == 2 {
			path = path[:len(path)-1]
		}
	}
	return Edit{Op: Remove, Path: path}
}

// container is a container or an init container. Ephemeral containers cannot have claims.
type container struct {
	spot
	// init is set for init containers that end before the pod's containers start.
	init bool
}

// containers returns the pod's containers, init containers first.
func (p pod) containers() []container {
	var out []container
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range p.template.get("spec", list).items() {
			if c.node = yamledit.Resolved(c.node); !isMapping(c.node) {
				continue
			}
			sidecar := c.get("restartPolicy").str() == "Always"
			out = append(out, container{c, list == "initContainers" && !sidecar})
		}
	}
	return out
}

// claims returns the entries of the pod's spec.resourceClaims.
func (p pod) claims() []spot { return p.template.get("spec", "resourceClaims").items() }

// onHost reports whether the pod uses the host's network.
func (p pod) onHost() bool { return p.template.get("spec", "hostNetwork").str() == "true" }

// eachResource calls visit with the resources in limits and requests of the pod's containers.
func (p pod) eachResource(visit func(name string, value spot)) {
	for _, c := range p.containers() {
		c.eachResource(visit)
	}
}

// eachResource calls visit with the resources in limits and requests of the container.
func (c container) eachResource(visit func(name string, value spot)) {
	for _, name := range resourceLists {
		list := c.get("resources", name)
		yamledit.Entries(list.node, func(key, value *yaml.Node) { visit(key.Value, spot{value, list.path.Child(key.Value)}) })
	}
}

// networksKey returns the annotation by which the pod requests networks.
func (p pod) networksKey() string {
	if strings.TrimSpace(p.template.annotation(attachment.OwnNetworksAnnotation).str()) != "" {
		return attachment.OwnNetworksAnnotation
	}
	return attachment.NetworksAnnotation
}

// networks returns the value of that annotation.
func (p pod) networks() spot { return p.template.annotation(p.networksKey()) }

package translate

import (
	"slices"
	"strings"
	"sync"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

const (
	configSourceAnnotation = "kubernetes.io/config.source"
	configMirrorAnnotation = "kubernetes.io/config.mirror"
)

// podRules checks a pod and the networks that it names.
type podRules struct {
	*request
	devices *deviceSources
}

// check reports the findings about the pod.
func (r podRules) check() {
	r.checkPod()
	r.checkHandClaims()
	r.checkNetworks()
	r.checkCapabilities()
	r.checkVRF()
	r.checkSysctls()
	r.checkCopies()
}

func (r podRules) checkPod() {
	template := r.pod.template
	if len(r.pod.containers()) == 0 {
		r.add(NoContainers, template.path.Child("spec"), r.doc.at(template.node), "it has no containers that could refer to a claim")
	}
	if r.pod.onHost() {
		r.addAt(HostNetwork, template.get("spec", "hostNetwork"), "the annotation has no effect, and the conversion adds no claim")
	}
	if node := r.pod.boundTo(); node != "" {
		r.addAt(NodeNamed, template.get("spec", "nodeName"), "node %s attaches its networks by the annotation, without a claim", node)
	}
	r.checkRuntime()
	r.checkStatic()
	r.checkPlaces()
}

// NodeNamedRemedy is the remedy for a pod that names its node and needs a claim; it takes the node.
const NodeNamedRemedy = "the scheduler, which allocates claims, ignores pods that have a node: remove it and use nodeSelector kubernetes.io/hostname: %s"

// boundTo returns the node that the pod names, or "": the scheduler never allocates a claim for such a pod.
func (p pod) boundTo() string {
	if p.onHost() {
		return "" // it has no networks
	}
	return p.template.get("spec", "nodeName").str()
}

// podFields are fields of a pod's spec that change what the rules say about the pod.
var podFields = []string{"containers", "initContainers", "hostNetwork", "nodeName", "nodeSelector", "resourceClaims", "runtimeClassName"}

// checkPlaces reports fields of the pod's spec that are beside it.
func (r podRules) checkPlaces() {
	for _, at := range []Path{nil, {"metadata"}} {
		for _, key := range podFields {
			if n := r.pod.template.get(append(slices.Clone(at), key)...); n.node != nil {
				r.addAt(PodFieldMisplaced, n, "it belongs to %s", r.pod.template.path.Child("spec", key)[len(r.object.path):])
			}
		}
	}
}

// checkStatic reports a static pod, by its annotations, its owner or its file.
func (r podRules) checkStatic() {
	for _, name := range []string{configSourceAnnotation, configMirrorAnnotation} {
		if n := r.pod.template.annotation(name); n.node != nil && (name == configMirrorAnnotation || n.str() != "api") {
			r.addAt(StaticPod, n, "the kubelet created it")
			return
		}
	}
	if owner := ownerOf(r.object); owner != nil && owner.Kind == "Node" {
		r.addAt(StaticPod, r.object.get("metadata", "ownerReferences"), "it is the mirror of a static pod")
		return
	}
	if r.object.ref.Kind == "Pod" && strings.Contains(r.doc.file, "etc/kubernetes/manifests/") {
		r.add(StaticPod, r.pod.template.path.Child("spec"), r.doc.at(r.object.node), "its file is in the kubelet's manifest folder")
	}
}

// checkNetworks reports the networks that nadra could not attach.
func (r podRules) checkNetworks() {
	mayDraw := sync.OnceValue(r.mayDraw)
	seen := map[attachment.NetworkRef]bool{}
	for i, s := range r.selections {
		if seen[s.Network] {
			continue
		}
		seen[s.Network] = true
		n, found := r.network(s.Network)
		switch node := r.pod.boundTo(); {
		case node == "" || !found || n.blocked != nil:
		case n.deviceClass != "":
			r.addFor(i, NodeNamedClaim, "%s runs on a device of DeviceClass %s: "+NodeNamedRemedy, s.Network, n.deviceClass, node)
		case n.claimedAlone != nil || n.resourceName == "":
		case !r.env.defined[n.resourceName] && r.env.options.TakenAlone(n.resourceName, r.pod.requests(n.resourceName)):
			continue
		default:
			r.addFor(i, NodeNamedClaim, "%s draws from pool %s: "+NodeNamedRemedy, s.Network, n.resourceName, node)
		}
		code, message := r.env.obstacle(s.Network, n, found)
		switch {
		case code == NetworkNotInInput && mayDraw() != "":
			r.addFor(i, NetworkMayDraw, "%s is not in the input, and may draw from %s, which the pod requests%s", s.Network, mayDraw(), r.env.origin(s.Network))
		case code == NetworkAwaited && mayDraw() != "":
			r.addFor(i, code, "%s; if it draws from %s, create the pod again after it", message, mayDraw())
		case code != "":
			r.addFor(i, code, "%s", message)
		default:
			r.checkPool(i, n)
			r.checkHazards(i, n)
		}
	}
}

// checkPool reports a network that gets its device from another driver, or from none.
func (r podRules) checkPool(selection int, n network) {
	switch source, why := r.devices.of(n); source {
	case noSource:
		r.addFor(selection, PoolUnserved, "%s: %s", r.selections[selection].Network, why)
	case fromOtherClaim:
		r.addFor(selection, PoolOfOther, "%s: %s", r.selections[selection].Network, why)
	}
}

// mayDraw names the resources of the pod from which an unknown network may draw.
func (r podRules) mayDraw() string {
	var names []string
	r.pod.eachResource(func(resource string, _ spot) {
		if domain, name, extended := strings.Cut(resource, "/"); extended && !strings.HasSuffix(domain, "kubernetes.io") && name != "gpu" {
			names = append(names, resource)
		}
	})
	return strings.Join(sortedSet(names), " or ")
}

// checkCapabilities reports arguments of a network that no plugin of its chain takes, or on which one fails.
func (r podRules) checkCapabilities() {
	for i, s := range r.selections {
		n, found := r.network(s.Network)
		if !found || n.blocked != nil || len(n.plugins) == 0 {
			continue
		}
		if err := s.CheckPrefixes(n.chain); err != nil {
			r.addFor(i, BadAnnotation, "networks[%d].%s", i, reason.Message(err))
		}
		for _, argument := range []struct {
			key   string
			given bool
		}{{"bandwidth", s.Bandwidth != nil}, {"portMappings", len(s.PortMappings) > 0}} {
			if argument.given && !slices.Contains(n.capabilities, argument.key) {
				r.addFor(i, CapabilityMissing, "networks[%d].%s: no plugin of %s has the capability %s", i, argument.key, s.Network, argument.key)
			}
		}
	}
}

// checkVRF reports default routes through interfaces that a chain moves into a VRF.
func (r podRules) checkVRF() {
	for i, s := range r.selections {
		n, found := r.network(s.Network)
		if found && n.blocked == nil && s.DefaultRoute != nil && len(*s.DefaultRoute) > 0 && slices.Contains(n.plugins, "vrf") {
			r.addFor(i, DefaultRouteInVRF, "networks[%d].default-route: plugin vrf of %s moves the interface into a VRF", i, s.Network)
		}
	}
}

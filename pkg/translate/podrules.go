package translate

import (
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/internal/yamledit"
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
	at := r.pod.at.Child("spec")
	if len(r.pod.containers()) == 0 {
		r.add(NoContainers, at, r.doc.at(r.pod.template), "it has no containers that could refer to a claim")
	}
	if n := get(r.pod.template, "spec", "hostNetwork"); str(n) == "true" {
		r.add(HostNetwork, at.Child("hostNetwork"), r.doc.at(n), "the annotation has no effect, and the conversion adds no claim")
	}
	if node := r.pod.boundTo(); node != "" {
		r.add(NodeNamed, at.Child("nodeName"), r.doc.at(get(r.pod.template, "spec", "nodeName")), "node %s attaches its networks by the annotation, without a claim", node)
	}
	r.checkRuntime()
	r.checkStatic()
	r.checkPlaces()
}

// NodeNamedRemedy is the remedy for a pod that names its node and needs a claim; it takes the node.
const NodeNamedRemedy = "the scheduler, which allocates claims, ignores pods that have a node: remove it and use nodeSelector kubernetes.io/hostname: %s"

// boundTo returns the node that the pod names, or "": the scheduler never allocates a claim for such a pod.
func (p pod) boundTo() string {
	if str(get(p.template, "spec", "hostNetwork")) == "true" {
		return "" // it has no networks
	}
	return str(get(p.template, "spec", "nodeName"))
}

// podFields are fields of a pod's spec that change what the rules say about the pod.
var podFields = []string{"containers", "initContainers", "hostNetwork", "nodeName", "nodeSelector", "resourceClaims", "runtimeClassName"}

// checkPlaces reports fields of the pod's spec that are beside it.
func (r podRules) checkPlaces() {
	for _, at := range []Path{nil, {"metadata"}} {
		for _, key := range podFields {
			if n := get(r.pod.template, append(slices.Clone(at), key)...); n != nil {
				path := r.pod.at.Child(at...).Child(key)
				r.add(PodFieldMisplaced, path, r.doc.at(n), "it belongs to %s", r.pod.at.Child("spec", key)[len(r.object.path):])
			}
		}
	}
}

// checkStatic reports a static pod, by its annotations, its owner or its file.
func (r podRules) checkStatic() {
	for _, name := range []string{configSourceAnnotation, configMirrorAnnotation} {
		if n := annotation(r.pod.template, name); n != nil && (name == configMirrorAnnotation || str(n) != "api") {
			r.add(StaticPod, r.pod.annotationPath(name), r.doc.at(n), "the kubelet created it")
			return
		}
	}
	if owner := ownerOf(r.object); owner != nil && owner.Kind == "Node" {
		r.add(StaticPod, r.object.path.Child("metadata", "ownerReferences"), r.doc.at(get(r.object.node, "metadata", "ownerReferences")), "it is the mirror of a static pod")
		return
	}
	if r.object.ref.Kind == "Pod" && strings.Contains(r.doc.file, "etc/kubernetes/manifests/") {
		r.add(StaticPod, r.pod.at.Child("spec"), r.doc.at(r.object.node), "its file is in the kubelet's manifest folder")
	}
}

// checkNetworks reports the networks that nadra could not attach.
func (r podRules) checkNetworks() {
	path := r.path()
	mayDraw := sync.OnceValue(r.mayDraw)
	seen := map[attachment.NetworkRef]bool{}
	for i, s := range r.selections {
		if seen[s.Network] {
			continue
		}
		seen[s.Network] = true
		n, found := r.network(s.Network)
		if node := r.pod.boundTo(); node != "" && found && n.blocked == nil && n.claimedAlone == nil && n.resourceName != "" {
			if !r.env.defined[n.resourceName] && r.env.options.TakenAlone(n.resourceName, r.pod.requests(n.resourceName)) {
				continue
			}
			r.add(NodeNamedClaim, path, r.place(i), "%s draws from pool %s: "+NodeNamedRemedy, s.Network, n.resourceName, node)
		}
		code, message := r.env.obstacle(s.Network, n, found)
		switch {
		case code == NetworkNotInInput && mayDraw() != "":
			r.add(NetworkMayDraw, path, r.place(i), "%s is not in the input, and may draw from %s, which the pod requests%s", s.Network, mayDraw(), r.env.origin(s.Network))
		case code == NetworkAwaited && mayDraw() != "":
			r.add(code, path, r.place(i), "%s; if it draws from %s, create the pod again after it", message, mayDraw())
		case code != "":
			r.add(code, path, r.place(i), "%s", message)
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
		r.add(PoolUnserved, r.path(), r.place(selection), "%s: %s", r.selections[selection].Network, why)
	case fromOtherClaim:
		r.add(PoolOfOther, r.path(), r.place(selection), "%s: %s", r.selections[selection].Network, why)
	}
}

// mayDraw names the resources of the pod from which an unknown network may draw.
func (r podRules) mayDraw() string {
	var names []string
	for _, c := range r.pod.containers() {
		for _, list := range resourceLists {
			yamledit.Entries(get(c.node, "resources", list), func(key, _ *yaml.Node) {
				if domain, name, extended := strings.Cut(key.Value, "/"); extended && !strings.HasSuffix(domain, "kubernetes.io") && name != "gpu" {
					names = append(names, key.Value)
				}
			})
		}
	}
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
			r.add(BadAnnotation, r.path(), r.place(i), "networks[%d].%s", i, reason.Message(err))
		}
		for _, argument := range []struct {
			key   string
			given bool
		}{{"bandwidth", s.Bandwidth != nil}, {"portMappings", len(s.PortMappings) > 0}} {
			if argument.given && !n.capabilities[argument.key] {
				r.add(CapabilityMissing, r.path(), r.place(i), "networks[%d].%s: no plugin of %s has the capability %s", i, argument.key, s.Network, argument.key)
			}
		}
	}
}

// checkVRF reports default routes through interfaces that a chain moves into a VRF.
func (r podRules) checkVRF() {
	for i, s := range r.selections {
		n, found := r.network(s.Network)
		if found && n.blocked == nil && s.DefaultRoute != nil && len(*s.DefaultRoute) > 0 && slices.Contains(n.plugins, "vrf") {
			r.add(DefaultRouteInVRF, r.path(), r.place(i), "networks[%d].default-route: plugin vrf of %s moves the interface into a VRF", i, s.Network)
		}
	}
}

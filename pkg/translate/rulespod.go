package translate

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// container is a container or an init container. Ephemeral ones cannot have
// claims.
type container struct {
	node *yaml.Node
	path Path
	// init is set for those that end before the pod's own containers start.
	init bool
}

func (p *planner) containers() []container {
	var out []container
	for _, list := range []string{"initContainers", "containers"} {
		for i, n := range items(get(p.pod.template, "spec", list)) {
			if n = resolved(n); !isMapping(n) {
				continue
			}
			sidecar := str(get(n, "restartPolicy")) == "Always"
			out = append(out, container{n, p.pod.at.Child("spec", list).Index(i), list == "initContainers" && !sidecar})
		}
	}
	return out
}

// checkPod has the rules about the pod itself.
func (p *planner) checkPod() {
	spec := get(p.pod.template, "spec")
	at := p.pod.at.Child("spec")
	if len(p.containers()) == 0 {
		p.add(NoContainers, at, p.doc.at(p.pod.template), "no containers are there to refer to a claim")
	}
	if n := get(spec, "hostNetwork"); str(n) == "true" {
		p.add(HostNetwork, at.Child("hostNetwork"), p.doc.at(n), "the annotation does nothing, and no claim is made")
	}
	p.checkRuntime()
	for _, name := range []string{configSourceAnnotation, configMirrorAnnotation} {
		if n := annotation(p.pod.template, name); n != nil && (name == configMirrorAnnotation || str(n) != "api") {
			p.add(StaticPod, p.annotationPath(name), p.doc.at(n), "the kubelet made it")
			return
		}
	}
	if owner := ownerOf(p.object); owner != nil && owner.Kind == "Node" {
		p.add(StaticPod, p.object.path.Child("metadata", "ownerReferences"), p.doc.at(get(p.object.node, "metadata", "ownerReferences")), "it is the mirror of one")
		return
	}
	if p.object.ref.Kind == "Pod" && strings.Contains(p.doc.file, "etc/kubernetes/manifests/") {
		p.add(StaticPod, at, p.doc.at(p.object.node), "its file is in the kubelet's folder")
	}
}

// checkNetworks has the rules about the networks that the pod names.
func (p *planner) checkNetworks() {
	path := p.annotationPath(attachment.NetworksAnnotation)
	seen := map[attachment.NetworkRef]bool{}
	for i, s := range p.selections {
		if seen[s.Network] {
			continue
		}
		seen[s.Network] = true
		n, found := p.network(s.Network)
		switch {
		case !found && p.env.options.AllNetworks:
			p.add(NetworkMissing, path, p.place(i), "%s does not exist", s.Network)
		case !found:
			p.add(NetworkNotInInput, path, p.place(i), "%s is not in the input%s", s.Network, p.mayDraw())
		case n.blocked != nil:
			p.add(NetworkUnusable, path, p.place(i), "%v", n.blocked)
		case n.resourceName != "" && !p.env.options.Pools:
			p.add(PoolsNotServedUser, path, p.place(i), "%s draws from pool %s", s.Network, n.resourceName)
		default:
			p.checkPool(i, n)
		}
	}
}

// mayDraw names the devices that the pod asks for, from which a network that is
// not known may draw.
func (p *planner) mayDraw() string {
	var names []string
	for _, c := range p.containers() {
		for _, list := range resourceLists {
			entries(get(c.node, "resources", list), func(key, _ *yaml.Node) {
				if domain, name, extended := strings.Cut(key.Value, "/"); extended && !strings.HasSuffix(domain, "kubernetes.io") && name != "gpu" {
					names = append(names, key.Value)
				}
			})
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; it may draw from " + strings.Join(sortedSet(names), " or ") + ", which the pod asks for"
}

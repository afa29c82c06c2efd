package translate

import (
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// resourceLists are the mappings of a container's resources that can name a
// pool. For extended resources they are equal where both are there.
var resourceLists = []string{"limits", "requests"}

// references counts the pod's networks by the pool of nadra's that they draw from.
func (p *planner) references() map[string]int64 {
	out := map[string]int64{}
	for _, s := range p.selections {
		n, found := p.network(s.Network)
		if !found {
			continue
		}
		if by, _ := p.deviceOf(n); by == byPool {
			out[n.resourceName]++
		}
	}
	return out
}

// checkResources opens an account for each resource that a network of the pod
// draws from; matched is set where there is one.
func (p *planner) checkResources() (matched bool) {
	references := p.references()
	for _, c := range p.containers() {
		for _, list := range resourceLists {
			entries(get(c.node, "resources", list), func(key, value *yaml.Node) {
				if references[key.Value] == 0 {
					return
				}
				matched = true
				at := c.path.Child("resources", list, key.Value)
				p.ledger.open(at.String())
				if _, ok := count(value); !ok {
					p.add(ResourceUnread, at, p.doc.at(value), "%q is no number of devices", str(value))
				}
			})
		}
	}
	if len(references) > 0 && p.exclusiveCPUs() {
		p.add(ExclusiveCPUs, p.pod.at.Child("spec"), p.doc.at(keyNode(p.pod.template, "spec")), "the pod's CPUs are whole and its networks need devices")
	}
	return matched
}

// count reads a number of devices.
func count(n *yaml.Node) (int64, bool) {
	q, err := resource.ParseQuantity(str(n))
	if err != nil {
		return 0, false
	}
	i, ok := q.AsInt64()
	return i, ok && i >= 0
}

// resourceEdits match the pod's devices with its networks: what comes with a
// network is taken out of limits and requests, and only the surplus remains.
func (p *planner) resourceEdits() []Edit {
	left := map[string]map[string]int64{} // by container and resource: what remains
	references := p.references()
	for _, name := range slices.Sorted(maps.Keys(references)) {
		p.match(name, references[name], left)
	}
	var edits []Edit
	for _, c := range p.containers() {
		for _, list := range resourceLists {
			edits = append(edits, p.listEdits(c, list, left[c.path.String()])...)
		}
	}
	return edits
}

// match distributes the networks of one pool over the containers' devices, in
// their order. Init containers run one after the other and before the others,
// so each of them can use the same devices.
func (p *planner) match(name string, references int64, left map[string]map[string]int64) {
	var have, most int64
	open := references
	for _, c := range p.containers() {
		devices := asked(c, name)
		taken := min(devices, references)
		if c.init {
			most = max(most, devices)
		} else {
			have += devices
			taken = min(devices, open)
			open -= taken
		}
		if left[c.path.String()] == nil {
			left[c.path.String()] = map[string]int64{}
		}
		left[c.path.String()][name] = devices - taken
	}
	at := p.annotationPath(attachment.NetworksAnnotation)
	switch have = max(have, most); {
	case have < references:
		p.add(ResourceShortfall, at, p.doc.at(p.annotation), "%s: %d networks, %d devices", name, references, have)
	case have > references:
		p.add(ResourceSurplus, at, p.doc.at(p.annotation), "%s: %d networks, %d devices; %d remain", name, references, have, have-references)
	}
}

// asked is how many devices a container asks for.
func asked(c container, name string) int64 {
	for _, list := range resourceLists {
		if n := get(c.node, "resources", list, name); n != nil {
			devices, _ := count(n)
			return devices
		}
	}
	return 0
}

// listEdits remove or reduce what is matched of one mapping, and the mapping
// itself when nothing remains of it.
func (p *planner) listEdits(c container, list string, left map[string]int64) []Edit {
	at := c.path.Child("resources", list)
	mapping := get(c.node, "resources", list)
	var edits []Edit
	removed, total := 0, 0
	entries(mapping, func(key, _ *yaml.Node) {
		total++
		remains, matched := left[key.Value]
		switch {
		case !matched:
		case remains > 0:
			edits = append(edits, Edit{Replace, at.Child(key.Value), strconv.FormatInt(remains, 10)})
			p.ledger.settle(at.Child(key.Value).String(), Reported, ResourceSurplus)
		default:
			removed++
			edits = append(edits, Edit{Op: Remove, Path: at.Child(key.Value)})
		}
	})
	if total > 0 && removed == total {
		return []Edit{{Op: Remove, Path: at}}
	}
	return edits
}

// exclusiveCPUs reports whether the kubelet would give the pod whole CPUs of
// its own: all containers have equal requests and limits of CPU and memory, and
// one has a whole number of CPUs.
func (p *planner) exclusiveCPUs() bool {
	whole := false
	for _, c := range p.containers() {
		for _, name := range []string{"cpu", "memory"} {
			limit, request := str(get(c.node, "resources", "limits", name)), str(get(c.node, "resources", "requests", name))
			if limit == "" || request != "" && request != limit {
				return false
			}
			if n, ok := count(get(c.node, "resources", "limits", name)); name == "cpu" && ok && n > 0 {
				whole = true
			}
		}
	}
	return whole
}

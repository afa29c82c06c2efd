package translate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nadra-dev/nadra/internal/yamledit"
)

// resourceLists are the mappings of a container's resources that can name a pool. For extended
// resources they must be equal if both exist.
var resourceLists = []string{"limits", "requests"}

// resourceMatcher matches the devices that a pod's containers request with the pod's networks:
// the devices of networks leave limits and requests, the others stay.
type resourceMatcher struct {
	*request
	// references counts the networks by the pool of nadra from which they draw.
	references map[string]int64
}

// check checks the resources from which networks of the pod draw. It reports whether there is one.
func (m *resourceMatcher) check() (matched bool) {
	m.pod.eachResource(func(name string, value spot) {
		if m.references[name] == 0 {
			return
		}
		matched = true
		if _, ok := count(value.node); !ok {
			m.addAt(ResourceUnread, value, "%q is not a number of devices", value.str())
		}
	})
	if len(m.references) > 0 && m.pod.exclusiveCPUs() {
		m.add(ExclusiveCPUs, m.pod.template.path.Child("spec"), m.doc.at(keyNode(m.pod.template.node, "spec")), "the pod has whole CPUs, and its networks need devices")
	}
	return matched
}

// count parses a number of devices.
func count(n *yaml.Node) (int64, bool) {
	q, err := resource.ParseQuantity(str(n))
	if err != nil {
		return 0, false
	}
	i, ok := q.AsInt64()
	return i, ok && i >= 0
}

// remaining counts the devices that stay in limits and requests, by container and resource.
type remaining map[string]map[string]int64

// edits returns the edits that take the devices of networks out of limits and requests.
func (m *resourceMatcher) edits() []Edit {
	left := remaining{}
	for _, name := range slices.Sorted(maps.Keys(m.references)) {
		m.match(name, m.references[name], left)
	}
	var edits []Edit
	for _, c := range m.pod.containers() {
		for _, list := range resourceLists {
			edits = append(edits, m.listEdits(c, list, left[c.path.String()])...)
		}
	}
	return edits
}

// match distributes the networks of one pool over the devices of the containers, in their
// order. Each init container can use the same devices, because init containers run one after
// the other and before the others.
func (m *resourceMatcher) match(name string, references int64, left remaining) {
	var have, most int64
	open := references
	for _, c := range m.pod.containers() {
		devices := requestedDevices(c, name)
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
	switch have = max(have, most); {
	case have < references:
		m.addAt(ResourceShortfall, m.annotation, "the pod requests %d of %s, and %s", have, name, networksTake(references))
	case have > references:
		stay := "stay"
		if have-references == 1 {
			stay = "stays"
		}
		m.addAt(ResourceSurplus, m.annotation, "the pod requests %d of %s; %s, and %d %s in limits", have, name, networksTake(references), have-references, stay)
	}
}

func networksTake(devices int64) string {
	if devices == 1 {
		return "its network takes 1"
	}
	return fmt.Sprintf("its networks take %d", devices)
}

// requestedDevices returns the number of devices of a resource that a container requests.
func requestedDevices(c container, name string) int64 {
	for _, list := range resourceLists {
		if n := c.get("resources", list, name); n.node != nil {
			devices, _ := count(n.node)
			return devices
		}
	}
	return 0
}

// listEdits returns the edits that remove or reduce the matched resources of one mapping. They
// remove the mapping itself if nothing remains in it.
func (m *resourceMatcher) listEdits(c container, list string, left map[string]int64) []Edit {
	mapping := c.get("resources", list)
	var edits []Edit
	removed, total := 0, 0
	yamledit.Entries(mapping.node, func(key, _ *yaml.Node) {
		total++
		remains, matched := left[key.Value]
		switch {
		case !matched:
		case remains > 0:
			edits = append(edits, Edit{Op: Replace, Path: mapping.path.Child(key.Value), Value: strconv.FormatInt(remains, 10)})
		default:
			removed++
			edits = append(edits, Edit{Op: Remove, Path: mapping.path.Child(key.Value)})
		}
	})
	if total > 0 && removed == total {
		return []Edit{{Op: Remove, Path: mapping.path}}
	}
	return edits
}

// exclusiveCPUs reports whether the kubelet would give the pod exclusive CPUs: all containers
// have equal requests and limits of CPU and memory, and one has a whole number of CPUs.
func (p pod) exclusiveCPUs() bool {
	whole := false
	for _, c := range p.containers() {
		for _, name := range []string{"cpu", "memory"} {
			limit, request := c.get("resources", "limits", name), c.get("resources", "requests", name).str()
			if limit.str() == "" || request != "" && request != limit.str() {
				return false
			}
			if n, ok := count(limit.node); name == "cpu" && ok && n > 0 {
				whole = true
			}
		}
	}
	return whole
}

// requests reports whether a container requests a resource.
func (p pod) requests(resource string) bool {
	return slices.ContainsFunc(p.containers(), func(c container) bool { return requestedDevices(c, resource) > 0 })
}

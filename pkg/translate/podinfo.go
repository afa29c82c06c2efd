package translate

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Pods whose networks draw from a pool have had this from the network resources
// injector: a volume in which they read their labels, their annotations, with
// network-status among them, and their huge pages. It is a volume and no part of
// the claim since network-status is written when the containers start.
const (
	PodInfoVolume = "podnetinfo"
	PodInfoPath   = "/etc/podnetinfo"

	containerNameVariable = "CONTAINER_NAME"
)

// podInfoEdits add the volume and what belongs to it.
func (p *planner) podInfoEdits() []Edit {
	o := p.env.options
	if o.NoPodInfo || !o.Pools || len(p.references()) == 0 || p.hasPodInfo() {
		return nil
	}
	files := []any{
		fields{{"path", "labels"}, {"fieldRef", fields{{"fieldPath", "metadata.labels"}}}},
		fields{{"path", "annotations"}, {"fieldRef", fields{{"fieldPath", "metadata.annotations"}}}},
	}
	var edits []Edit
	for _, c := range p.mainContainers() {
		if huge := hugePageFiles(c); len(huge) > 0 {
			files = append(files, huge...)
			// By its name a container finds its own files.
			value := fields{{"name", containerNameVariable}, {"value", str(get(c.node, "name"))}}
			edits = append(edits, appendNamed(get(c.node, "env"), c.path.Child("env"), value)...)
		}
		mount := fields{{"name", PodInfoVolume}, {"mountPath", PodInfoPath}, {"readOnly", true}}
		edits = append(edits, appendNamed(get(c.node, "volumeMounts"), c.path.Child("volumeMounts"), mount)...)
	}
	volume := fields{{"name", PodInfoVolume}, {"downwardAPI", fields{{"items", files}}}}
	return append(edits, appendNamed(get(p.pod.template, "spec", "volumes"), p.pod.at.Child("spec", "volumes"), volume)...)
}

// hasPodInfo reports whether the pod has such a volume: by the injector, whose
// webhook came first, by an earlier conversion, or by its author, under any name.
// A mount without its volume is from an author who counts on the injector.
func (p *planner) hasPodInfo() bool {
	if named(get(p.pod.template, "spec", "volumes"), PodInfoVolume) {
		return true
	}
	return slices.ContainsFunc(p.mainContainers(), func(c container) bool {
		return slices.ContainsFunc(items(get(c.node, "volumeMounts")), func(m *yaml.Node) bool {
			at := path.Clean(str(get(m, "mountPath")))
			return str(get(m, "name")) != PodInfoVolume && (at == PodInfoPath || strings.HasPrefix(at, PodInfoPath+"/"))
		})
	})
}

// mainContainers are those that are no init containers, nor sidecars.
func (p *planner) mainContainers() []container {
	return slices.DeleteFunc(p.containers(), func(c container) bool { return c.path[len(c.path)-2] != "containers" })
}

// hugePageFiles are the files about a container's huge pages, in MiB. For huge
// pages limits and requests are equal: when a webhook sees the pod the API server
// has filled in the requests, and a manifest gets the same files.
func hugePageFiles(c container) []any {
	name := str(get(c.node, "name"))
	if name == "" {
		return nil
	}
	var sizes []string
	for _, list := range resourceLists {
		entries(get(c.node, "resources", list), func(key, value *yaml.Node) {
			size, huge := strings.CutPrefix(key.Value, corev1.ResourceHugePagesPrefix)
			if q, err := resource.ParseQuantity(str(value)); huge && size != "" && err == nil && !q.IsZero() {
				sizes = append(sizes, size)
			}
		})
	}
	var out []any
	for _, size := range sortedSet(sizes) {
		for _, of := range []string{"request", "limit"} {
			out = append(out, fields{
				{"path", fmt.Sprintf("hugepages_%s_%s_%s", strings.ReplaceAll(size, "i", ""), of, name)},
				{"resourceFieldRef", fields{
					{"containerName", name}, {"resource", of + "s." + corev1.ResourceHugePagesPrefix + size}, {"divisor", "1Mi"},
				}},
			})
		}
	}
	return out
}

// appendNamed adds an item to a list, which may not be there, unless the list has
// one of its name.
func appendNamed(list *yaml.Node, at Path, item fields) []Edit {
	switch {
	case named(list, item[0].value.(string)):
		return nil
	case isEmpty(list):
		return []Edit{{Add, at, []any{item}}}
	}
	return []Edit{{Add, at.Child("-"), item}}
}

// named reports whether a list has an item of a name.
func named(list *yaml.Node, name string) bool {
	return slices.ContainsFunc(items(list), func(item *yaml.Node) bool { return str(get(item, "name")) == name })
}

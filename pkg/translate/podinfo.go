package translate

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The network resources injector gives these to pods whose networks draw from a pool: a volume
// with the pod's labels, annotations and huge pages. The annotations have network-status, which
// is written when the containers start, so the claim could not have it.
const (
	PodInfoVolume = "podnetinfo"
	PodInfoPath   = "/etc/podnetinfo"

	containerNameVariable = "CONTAINER_NAME"
)

// podInfoEdits returns the edits that add the volume, its mounts and the variables. references
// has the pools from which the pod's networks draw.
func podInfoEdits(p pod, o Options, references map[string]int64) []Edit {
	if o.NoPodInfo || !o.Pools || len(references) == 0 || p.hasPodInfo() {
		return nil
	}
	files := []any{
		fields{{Key: "path", Value: "labels"}, {Key: "fieldRef", Value: fields{{Key: "fieldPath", Value: "metadata.labels"}}}},
		fields{{Key: "path", Value: "annotations"}, {Key: "fieldRef", Value: fields{{Key: "fieldPath", Value: "metadata.annotations"}}}},
	}
	var edits []Edit
	for _, c := range p.mainContainers() {
		if huge := hugePageFiles(c); len(huge) > 0 {
			files = append(files, huge...)
			// A container finds its own files by its name.
			value := fields{{Key: "name", Value: containerNameVariable}, {Key: "value", Value: c.get("name").str()}}
			edits = append(edits, appendNamed(c.get("env"), value)...)
		}
		mount := fields{{Key: "name", Value: PodInfoVolume}, {Key: "mountPath", Value: PodInfoPath}, {Key: "readOnly", Value: true}}
		edits = append(edits, appendNamed(c.get("volumeMounts"), mount)...)
	}
	volume := fields{{Key: "name", Value: PodInfoVolume}, {Key: "downwardAPI", Value: fields{{Key: "items", Value: files}}}}
	return append(edits, appendNamed(p.template.get("spec", "volumes"), volume)...)
}

// hasPodInfo reports whether the pod has such a volume: from the injector, from an earlier
// conversion, or from its author under any name. A mount of PodInfoVolume without the volume is
// from an author who relies on the injector.
func (p pod) hasPodInfo() bool {
	if p.template.get("spec", "volumes").named(PodInfoVolume).node != nil {
		return true
	}
	return slices.ContainsFunc(p.mainContainers(), func(c container) bool {
		return slices.ContainsFunc(c.get("volumeMounts").items(), func(m spot) bool {
			at := path.Clean(m.get("mountPath").str())
			return m.get("name").str() != PodInfoVolume && (at == PodInfoPath || strings.HasPrefix(at, PodInfoPath+"/"))
		})
	})
}

// mainContainers returns the containers without init containers and sidecars.
func (p pod) mainContainers() []container {
	return slices.DeleteFunc(p.containers(), func(c container) bool { return c.path[len(c.path)-2] != "containers" })
}

// hugePageFiles returns the files about a container's huge pages, in MiB. It reads limits and
// requests, which are equal for huge pages: the API server fills in the requests before the
// webhook sees the pod, and a manifest must get the same files.
func hugePageFiles(c container) []any {
	name := c.get("name").str()
	if name == "" {
		return nil
	}
	var sizes []string
	c.eachResource(func(name string, value spot) {
		size, huge := strings.CutPrefix(name, corev1.ResourceHugePagesPrefix)
		if q, err := resource.ParseQuantity(value.str()); huge && size != "" && err == nil && !q.IsZero() {
			sizes = append(sizes, size)
		}
	})
	var out []any
	for _, size := range sortedSet(sizes) {
		for _, of := range []string{"request", "limit"} {
			ref := fields{
				{Key: "containerName", Value: name},
				{Key: "resource", Value: of + "s." + corev1.ResourceHugePagesPrefix + size},
				{Key: "divisor", Value: "1Mi"},
			}
			file := fmt.Sprintf("hugepages_%s_%s_%s", strings.ReplaceAll(size, "i", ""), of, name)
			out = append(out, fields{{Key: "path", Value: file}, {Key: "resourceFieldRef", Value: ref}})
		}
	}
	return out
}

// appendNamed returns the edit that adds an item to a list, which may be absent. It returns
// none if the list has an item of the same name.
func appendNamed(list spot, item fields) []Edit {
	if list.named(item[0].Value.(string)).node != nil {
		return nil
	}
	return list.adding(item)
}

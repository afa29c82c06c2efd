package bundle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

type object = map[string]any

// The fields of a pod that are kept: those about its networks, its node and its state. The
// archive has no others.
var (
	keptSpec = []string{
		"nodeName", "hostNetwork", "restartPolicy", "runtimeClassName", "schedulerName", "priorityClassName",
		"nodeSelector", "affinity", "tolerations", "resourceClaims",
	}
	keptContainer   = []string{"name", "image", "resources", "restartPolicy"}
	keptStatus      = []string{"phase", "reason", "conditions", "podIPs", "hostIP", "nominatedNodeName", "qosClass", "resourceClaimStatuses", "startTime"}
	keptAnnotations = []string{"k8s.v1.cni.cncf.io/", "v1.multus-cni.io/", "nadra.dev/"}
)

// reduce removes fields that must not go into the archive, and counts redactions. It changes
// the object.
func (r *Redactor) reduce(o object) object {
	switch o["kind"] {
	case "Pod":
		return reducePod(o)
	case "DaemonSet", "Deployment":
		r.dropEnvironment(o)
	case "NetworkAttachmentDefinition":
		r.dropBadConfig(o)
	}
	return o
}

// pick returns the named fields of an object.
func pick(o object, names []string) object {
	out := object{}
	for _, name := range names {
		if value, found := o[name]; found {
			out[name] = value
		}
	}
	return out
}

// reducePod keeps some fields of a pod.
func reducePod(pod object) object {
	spec, _ := pod["spec"].(object)
	status, _ := pod["status"].(object)
	meta, _ := pod["metadata"].(object)
	out := object{
		"apiVersion": pod["apiVersion"], "kind": pod["kind"],
		"metadata": reduceMeta(meta), "spec": pick(spec, keptSpec), "status": pick(status, keptStatus),
	}
	for _, list := range []string{"initContainers", "containers"} {
		if containers := each(spec[list], func(c object) object { return pick(c, keptContainer) }); containers != nil {
			out["spec"].(object)[list] = containers
		}
	}
	if volumes := each(spec["volumes"], volumeKind); volumes != nil {
		out["spec"].(object)["volumes"] = volumes
	}
	for _, list := range []string{"initContainerStatuses", "containerStatuses"} {
		if statuses := each(status[list], reduceStatus); statuses != nil {
			out["status"].(object)[list] = statuses
		}
	}
	return out
}

// each returns the objects of a list after change.
func each(list any, change func(object) object) []any {
	items, _ := list.([]any)
	var out []any
	for _, item := range items {
		if o, ok := item.(object); ok {
			out = append(out, change(o))
		}
	}
	return out
}

// reduceMeta keeps some fields and annotations of an object's metadata.
func reduceMeta(meta object) object {
	out := pick(meta, []string{"name", "namespace", "uid", "labels", "ownerReferences", "creationTimestamp", "deletionTimestamp", "finalizers"})
	annotations, _ := meta["annotations"].(object)
	kept := maps.Clone(annotations)
	maps.DeleteFunc(kept, func(name string, _ any) bool {
		return !slices.ContainsFunc(keptAnnotations, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
	if len(kept) > 0 {
		out["annotations"] = kept
	}
	return out
}

// volumeKind keeps a volume's name and kind, and none of its contents.
func volumeKind(v object) object {
	out := pick(v, []string{"name"})
	for kind := range v {
		if kind != "name" {
			out["is"] = kind
		}
	}
	return out
}

// reduceStatus drops a container's termination message, which the container itself writes.
func reduceStatus(s object) object {
	for _, name := range []string{"state", "lastState"} {
		states, _ := s[name].(object)
		if ended, ok := states["terminated"].(object); ok {
			delete(ended, "message")
		}
	}
	return pick(s, []string{"name", "image", "imageID", "ready", "started", "restartCount", "state", "lastState"})
}

// dropEnvironment redacts the values of variables in nadra's own workloads.
func (r *Redactor) dropEnvironment(workload object) {
	template, _ := dig(workload, "spec", "template", "spec")
	for _, list := range []string{"initContainers", "containers"} {
		each(template[list], func(c object) object {
			each(c["env"], func(variable object) object {
				if value, found := variable["value"]; found {
					variable["value"] = r.mark(value, environment)
				}
				return variable
			})
			return c
		})
	}
}

// dig returns the object at a path.
func dig(o object, path ...string) (object, bool) {
	for _, name := range path {
		inner, ok := o[name].(object)
		if !ok {
			return nil, false
		}
		o = inner
	}
	return o, true
}

// dropBadConfig redacts a configuration that cannot be parsed, because it may contain
// credentials.
func (r *Redactor) dropBadConfig(nad object) {
	spec, _ := dig(nad, "spec")
	config, _ := spec["config"].(string)
	if strings.TrimSpace(config) == "" {
		return
	}
	if _, err := decode(config); err != nil {
		r.Counts[unreadable]++
		spec["config"] = fmt.Sprintf("%s: %d bytes that are not JSON: %v", Mark, len(config), err)
	}
}

package translate

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// template returns the spec of a ResourceClaimTemplate of the input or the cluster, nil if there is
// none. The spec of an invalid template is empty.
func (e *environment) template(namespace, name string) *resourceapi.ResourceClaimTemplateSpec {
	if t := e.templates[namespace+"/"+name]; t != nil || e.options.LookupTemplate == nil {
		return t
	}
	if t := e.options.LookupTemplate(namespace, name); t != nil {
		return &t.Spec
	}
	return nil
}

// everywhere is the place of what a cluster has.
const everywhere = "cluster"

// placeTemplate records that a template is defined where a file is.
func (e *environment) placeTemplate(key, file string) {
	e.places[key] = append(e.places[key], e.units.places(file)...)
}

// placement is a template, by namespace/name, that is created beside a file.
type placement struct{ key, file string }

// placeTemplates decides beside which of the files that need a template it is created, so that whatever is applied has it
// once. Files of many kustomizations come first. It records files for which there is no such place, and reports whether
// there are any: one kustomization has the template from another file, and the next has not.
func (e *environment) placeTemplates(files []File, outcomes []fileResult) (placed map[placement]bool, clashing bool) {
	placed = map[placement]bool{}
	var order []int
	for i := range outcomes {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(e.units.places(files[b].Name)) - len(e.units.places(files[a].Name)) })
	for _, i := range order {
		for _, t := range outcomes[i].templates {
			here := placement{t.object.Namespace + "/" + t.object.Name, files[i].Name}
			switch have, of := e.haveTemplate(here); have {
			case of:
			case 0:
				placed[here] = true
				e.placeTemplate(here.key, here.file)
			default:
				e.units.clashing[slashed(here.file)], clashing = true, true
			}
		}
	}
	return placed, clashing
}

// haveTemplate returns how many of the places where a file is applied have a template. A folder includes the folders
// inside of it.
func (e *environment) haveTemplate(p placement) (have, of int) {
	places := e.units.places(p.file)
	if e.templates[p.key] == nil {
		namespace, name, _ := strings.Cut(p.key, "/")
		if e.template(namespace, name) != nil {
			return len(places), len(places) // the lookup has found it
		}
	}
	for _, place := range places {
		if slices.ContainsFunc(e.places[p.key], func(has string) bool {
			return has == everywhere || has == place || has == "folder ." || strings.HasPrefix(place, has+"/")
		}) {
			have++
		}
	}
	return have, len(places)
}

// checkTemplate reports an existing template of the same name with another content.
func (r *request) checkTemplate(t *resourceapi.ResourceClaimTemplate) {
	if there := r.env.template(t.Namespace, t.Name); there != nil && !sameSpec(there.Spec, t.Spec.Spec) {
		r.addAt(TemplateChanged, r.annotation, "%s/%s", t.Namespace, t.Name)
	}
}

// sameSpec reports whether two specs have the same requests and configs. It compares by value,
// because the API server may add defaults and reorder keys.
func sameSpec(got, want resourceapi.ResourceClaimSpec) bool {
	if len(got.Devices.Requests) != len(want.Devices.Requests) {
		return false
	}
	for i := range got.Devices.Requests {
		a, b := got.Devices.Requests[i], want.Devices.Requests[i]
		if a.Name != b.Name || a.Exactly == nil || a.Exactly.DeviceClassName != b.Exactly.DeviceClassName {
			return false
		}
	}
	return sameJSON(got.Devices.Config, want.Devices.Config)
}

// sameJSON reports whether two values have the same JSON form, whatever the order of keys.
func sameJSON(a, b any) bool {
	values := func(value any) any {
		text, err := json.Marshal(value)
		var v any
		if err != nil || json.Unmarshal(text, &v) != nil {
			return err
		}
		return v
	}
	return reflect.DeepEqual(values(a), values(b))
}

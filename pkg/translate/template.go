package translate

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
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

// hasTemplate reports whether a template is there wherever a file is applied. A folder includes the folders
// inside of it.
func (e *environment) hasTemplate(key, file string) bool {
	if e.templates[key] == nil {
		namespace, name, _ := strings.Cut(key, "/")
		if e.template(namespace, name) != nil {
			return true // the lookup has found it
		}
	}
	for _, place := range e.units.places(file) {
		if !slices.ContainsFunc(e.places[key], func(has string) bool {
			return has == everywhere || has == place || has == "folder ." || strings.HasPrefix(place, has+"/")
		}) {
			return false
		}
	}
	return true
}

// templateSpec decodes the spec of a manifest. It returns an empty spec if it is invalid.
func templateSpec(node *yaml.Node) *resourceapi.ResourceClaimTemplateSpec {
	spec := &resourceapi.ResourceClaimTemplateSpec{}
	if !decodeNode(node, spec) {
		return &resourceapi.ResourceClaimTemplateSpec{}
	}
	return spec
}

// checkTemplate reports an existing template of the same name with another content.
func (r *request) checkTemplate(t *resourceapi.ResourceClaimTemplate) {
	if there := r.env.template(t.Namespace, t.Name); there != nil && !sameSpec(there.Spec, t.Spec.Spec) {
		r.add(TemplateChanged, r.path(), r.at(), "%s/%s", t.Namespace, t.Name)
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

package translate

import (
	"encoding/json"
	"reflect"

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
	return sameConfigs(got.Devices.Config, want.Devices.Config)
}

func sameConfigs(a, b []resourceapi.DeviceClaimConfiguration) bool {
	values := func(configs []resourceapi.DeviceClaimConfiguration) any {
		text, err := json.Marshal(configs)
		var v any
		if err != nil || json.Unmarshal(text, &v) != nil {
			return err
		}
		return v
	}
	return reflect.DeepEqual(values(a), values(b))
}

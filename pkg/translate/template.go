package translate

import (
	"encoding/json"
	"reflect"

	"go.yaml.in/yaml/v3"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// template is what a ResourceClaimTemplate of the input or the cluster says; nil
// if there is none. One that cannot be read says nothing.
func (e *environment) template(namespace, name string) *resourceapi.ResourceClaimTemplateSpec {
	if t := e.templates[namespace+"/"+name]; t != nil || e.options.LookupTemplate == nil {
		return t
	}
	if t := e.options.LookupTemplate(namespace, name); t != nil {
		return &t.Spec
	}
	return nil
}

// templateSpec reads the spec of a manifest.
func templateSpec(node *yaml.Node) *resourceapi.ResourceClaimTemplateSpec {
	spec := &resourceapi.ResourceClaimTemplateSpec{}
	var raw any
	if node == nil || node.Decode(&raw) != nil {
		return spec
	}
	text, err := json.Marshal(raw)
	if err != nil || json.Unmarshal(text, spec) != nil {
		return &resourceapi.ResourceClaimTemplateSpec{}
	}
	return spec
}

// checkTemplate compares a template with the one of its name, if that is there.
func (e *environment) checkTemplate(p *planner, t *resourceapi.ResourceClaimTemplate) {
	if there := e.template(t.Namespace, t.Name); there != nil && !sameSpec(there.Spec, t.Spec.Spec) {
		p.add(TemplateChanged, p.annotationPath(attachment.NetworksAnnotation), p.doc.at(p.annotation), "%s/%s", t.Namespace, t.Name)
	}
}

// sameSpec compares by value, as the API server may write defaults and keys
// in another order: what nadra asks for must be there, and nothing else of what
// it would say.
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

package translate

import (
	"encoding/json"
	"reflect"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"go.yaml.in/yaml/v3"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/operators"
)

// Options say how to convert.
type Options struct {
	// Namespace is that of objects which state none. When it is empty, default
	// is assumed, with a finding.
	Namespace string
	// DropAnnotation removes the annotation from what was converted. By default
	// it stays, so that Multus can serve the workload again.
	DropAnnotation bool
	// Pools says that the cluster serves pools of hardware devices. This
	// version's node driver does not.
	Pools bool
	// Operators are what network operators know and their objects do not say.
	// Where it has no namespace, that of objects which state none is taken.
	Operators operators.Options
	// RenderNetworks adds what operators would make of their objects to what is
	// created: for a cluster without these operators.
	RenderNetworks bool
	// Lookup finds networks that are not in the input; nil finds none. It may
	// be called several times for a network, and from several goroutines.
	Lookup func(attachment.NetworkRef) *nadv1.NetworkAttachmentDefinition
	// AllNetworks says that a network which is neither in the input nor found
	// does not exist.
	AllNetworks bool
	// Templates are kinds with pod templates besides those that are known.
	Templates []TemplatePath
}

func (o Options) namespace() string {
	if o.Namespace == "" {
		return "default"
	}
	return o.Namespace
}

// environment is what the rules for one pod have to know of everything else.
type environment struct {
	options  Options
	networks map[attachment.NetworkRef]network
	// pools are the resources that networks of the input draw from.
	pools map[string]bool
	// handlers are those of the input's RuntimeClasses.
	handlers map[string]string
	// classes and templates are those of the input, by name and by
	// namespace/name.
	classes   map[string]bool
	templates map[string]*yaml.Node
}

func newEnvironment(o Options) *environment {
	return &environment{
		options:  o,
		networks: map[attachment.NetworkRef]network{},
		pools:    map[string]bool{}, handlers: map[string]string{},
		classes: map[string]bool{}, templates: map[string]*yaml.Node{},
	}
}

func (e *environment) network(ref attachment.NetworkRef) (network, bool) {
	if n, found := e.networks[ref]; found {
		return n, true
	}
	if e.options.Lookup == nil {
		return network{}, false
	}
	nad := e.options.Lookup(ref)
	if nad == nil {
		return network{}, false
	}
	n, _ := networkOf(nad)
	return n, true
}

// servable reports whether nodes would publish a network.
func (e *environment) servable(n network) bool {
	return n.blocked == nil && (n.resourceName == "" || e.options.Pools)
}

// checkTemplate compares a template with that of the input, if it is there.
func (e *environment) checkTemplate(p *planner, t *resourceapi.ResourceClaimTemplate) {
	node := e.templates[t.Namespace+"/"+t.Name]
	if node == nil {
		return
	}
	spec := get(node, "spec")
	if spec == nil || !sameSpec(spec, t.Spec) {
		p.add(TemplateChanged, p.annotationPath(attachment.NetworksAnnotation), p.doc.at(p.annotation), "%s/%s", t.Namespace, t.Name)
	}
}

// sameSpec compares by value, as the API server may write defaults and keys
// in another order: what nadra asks for must be there, and nothing else of what
// it would say.
func sameSpec(node *yaml.Node, want resourceapi.ResourceClaimTemplateSpec) bool {
	var raw any
	if node.Decode(&raw) != nil {
		return false
	}
	text, err := json.Marshal(raw)
	if err != nil {
		return false
	}
	var got resourceapi.ResourceClaimTemplateSpec
	if json.Unmarshal(text, &got) != nil || len(got.Spec.Devices.Requests) != len(want.Spec.Devices.Requests) {
		return false
	}
	for i := range got.Spec.Devices.Requests {
		a, b := got.Spec.Devices.Requests[i], want.Spec.Devices.Requests[i]
		if a.Name != b.Name || a.Exactly == nil || a.Exactly.DeviceClassName != b.Exactly.DeviceClassName {
			return false
		}
	}
	return sameConfigs(got.Spec.Devices.Config, want.Spec.Devices.Config)
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

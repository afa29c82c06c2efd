// Package operators renders the NetworkAttachmentDefinition that a network operator would make of
// its custom resource. It performs no I/O.
//
// It follows these versions of two operators:
//
//	sriov-network-operator 249e200 (v1.6.0-285): SriovNetwork, SriovIBNetwork, OVSNetwork
//	NVIDIA network-operator b06827e (v26.7.0-beta.5-65): MacvlanNetwork, HostDeviceNetwork, IPoIBNetwork
//
// Both operators fill in text templates without checking the values, and NVIDIA's operator does not
// check the result either. This package does the same, so that it gets the same JSON values, and
// then refuses configurations that no CNI runtime would accept. It also does what the API server
// does before an operator sees an object (defaults, limits, unknown fields), for objects from files.
//
// The definition has what the template has. It lacks what the controllers add for themselves: owner
// references, and the labels and the revision by which NVIDIA's operator finds its objects.
//
// Earlier versions differ little: sriov-network-operator writes cniVersion 1.0.0, logLevel and
// logFile since v1.3.0, and the owner-ref annotation after v1.6.0. NVIDIA's operator knows
// metaPlugins after v26.7.0-rc.2.
//
// The files:
//
//	operators.go  Render, and the metadata of the definition
//	spec.go       reads and checks fields of a spec
//	config.go     assembles the CNI configuration from text, as the templates do
//	sriov.go      the kinds of sriov-network-operator
//	nvidia.go     the kinds of NVIDIA's network-operator
//	note.go       notes about an object
package operators

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// DefaultResourcePrefix is the prefix that sriov-network-operator's own chart and scripts set.
// NVIDIA's chart, which contains the operator, sets "nvidia.com".
const DefaultResourcePrefix = "openshift.io"

// OwnerAnnotation is the annotation by which sriov-network-operator recognizes its definitions. It
// overwrites a definition of the same name without the annotation, and does not change a definition
// with another value.
const OwnerAnnotation = "sriovnetwork.openshift.io/owner-ref"

// Options are what the operators know besides the object.
type Options struct {
	// ResourcePrefix is sriov-network-operator's RESOURCE_PREFIX. Empty means DefaultResourcePrefix,
	// with a note.
	ResourcePrefix string
	// Namespace is the namespace of namespaced objects that state none.
	Namespace string
	// OperatorNamespace is the namespace of sriov-network-operator, if it is known. Only objects in
	// it may choose another namespace.
	OperatorNamespace string
}

// GroupKind is the apiVersion and kind of objects.
type GroupKind struct{ APIVersion, Kind string }

// Kinds returns the kinds that Render knows, in a fixed order.
func Kinds() []GroupKind {
	var out []GroupKind
	for _, k := range kinds {
		out = append(out, k.GroupKind)
	}
	return out
}

// Knows reports whether Render knows a kind.
func Knows(apiVersion, kind string) bool {
	return slices.Contains(Kinds(), GroupKind{apiVersion, kind})
}

// kind is how an operator renders one of its resources.
type kind struct {
	GroupKind
	// clusterScoped is set for objects without a namespace.
	clusterScoped bool
	cniVersion    string
	// namespace returns the definition's namespace if the object does not choose one.
	namespace func(*rendering) string
	// fields has all fields of the CRD's spec.
	fields []string
	// plugin reads the spec and writes the configuration of the first plugin.
	plugin func(*rendering)
}

var kinds = []kind{sriovNetwork, sriovIBNetwork, ovsNetwork, macvlanNetwork, hostDeviceNetwork, ipoibNetwork}

// rendering renders one object.
type rendering struct {
	kind
	spec
	config
	opts      Options
	name      string
	namespace string // the object's
	// annotations are those of the definition.
	annotations map[string]string
}

// Render returns the definition of an object, which was decoded from YAML or JSON, with notes about
// everything that the definition does not show: each field of the spec is in the definition or in a
// note. The error has all mistakes, each with its field. attachment.ParseNetwork accepts every
// definition that Render returns.
func Render(obj map[string]any, opts Options) (*nadv1.NetworkAttachmentDefinition, []Note, error) {
	apiVersion, _ := obj["apiVersion"].(string)
	name, _ := obj["kind"].(string)
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.GroupKind == GroupKind{apiVersion, name} })
	if i < 0 {
		return nil, nil, fmt.Errorf("rendering %s %q: no known network operator has this kind: use one of %s", apiVersion, name, knownKinds())
	}
	r := rendering{kind: kinds[i], opts: opts, annotations: map[string]string{}}
	nad := r.render(obj)
	if len(r.errs) > 0 {
		return nil, r.notes, fmt.Errorf("rendering %s %s: %w", r.Kind, r.id(), r.errs.ToAggregate())
	}
	if _, err := attachment.ParseNetwork(nad); err != nil {
		return nil, r.notes, fmt.Errorf("rendering %s %s: the operator would make an invalid CNI configuration: %w", r.Kind, r.id(), err)
	}
	return nad, r.notes, nil
}

// knownKinds returns the known kinds, for an error.
func knownKinds() string {
	var out []string
	for _, k := range Kinds() {
		out = append(out, k.APIVersion+" "+k.Kind)
	}
	return strings.Join(out, ", ")
}

// id returns the object's namespace and name.
func (r *rendering) id() string {
	if r.namespace == "" {
		return r.name
	}
	return r.namespace + "/" + r.name
}

// render renders the object and collects errors and notes.
func (r *rendering) render(obj map[string]any) *nadv1.NetworkAttachmentDefinition {
	r.readMetadata(obj)
	r.readSpec(obj, r.fields)
	namespace := r.target()
	r.plugin(r)
	r.unknown()
	text := r.assemble(r.name, r.cniVersion)
	r.check(text, &r.spec)
	if len(r.annotations) == 0 {
		r.annotations = nil
	}
	return &nadv1.NetworkAttachmentDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: nadv1.SchemeGroupVersion.String(), Kind: "NetworkAttachmentDefinition"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: r.name, Annotations: maps.Clone(r.annotations)},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: indented(text)},
	}
}

// readMetadata reads and checks name and namespace.
func (r *rendering) readMetadata(obj map[string]any) {
	path := field.NewPath("metadata")
	metadata, ok := obj["metadata"].(map[string]any)
	if !ok {
		r.errs = append(r.errs, field.Required(path, "write metadata.name"))
		return
	}
	r.name = r.metadataText(metadata, "name")
	r.namespace = r.metadataText(metadata, "namespace")
	if r.name == "" {
		r.errs = append(r.errs, field.Required(path.Child("name"), "write a name, which the definition gets, too"))
	} else {
		r.checkName(path.Child("name"), r.name, validation.IsDNS1123Subdomain)
	}
	switch {
	case r.namespace != "" && r.clusterScoped:
		r.note(path.Child("namespace"), LeftOut, "objects of this kind have no namespace; spec.networkNamespace is the namespace of the definition")
		r.namespace = ""
	case r.namespace == "" && !r.clusterScoped:
		r.namespace = r.opts.Namespace
	}
}

// metadataText reads a string of the metadata.
func (r *rendering) metadataText(metadata map[string]any, name string) string {
	if metadata[name] == nil {
		return ""
	}
	text, ok := metadata[name].(string)
	if !ok {
		r.errs = append(r.errs, field.Invalid(field.NewPath("metadata", name), metadata[name], "must be a string: put it in quotes"))
	}
	return text
}

// target returns the namespace of the definition.
func (r *rendering) target() string {
	path := r.path.Child("networkNamespace")
	chosen := r.text("networkNamespace")
	if chosen == "" {
		return r.kind.namespace(r)
	}
	r.checkName(path, chosen, validation.IsDNS1123Label)
	if !r.clusterScoped && r.opts.OperatorNamespace != "" && r.namespace != r.opts.OperatorNamespace {
		r.note(path, NotMade, fmt.Sprintf("the operator makes no definition of this object: only objects in its own namespace, %s, may choose another namespace", r.opts.OperatorNamespace))
	}
	return chosen
}

// ownNamespace returns the namespace of the object, in which sriov-network-operator creates the
// definition.
func ownNamespace(r *rendering) string {
	path := field.NewPath("metadata", "namespace")
	if r.namespace == "" {
		r.note(path, Assumed, "is missing, so the definition states none: create it in the namespace of the object")
	} else {
		r.checkName(path, r.namespace, validation.IsDNS1123Label)
	}
	return r.namespace
}

// checkName checks a name of the definition. The templates write it into YAML without quotes, where
// 100, on and y are not strings.
func (r *rendering) checkName(path *field.Path, name string, problems func(string) []string) {
	invalid := problems(name)
	for _, problem := range invalid {
		r.errs = append(r.errs, field.Invalid(path, brief(name), problem))
	}
	var read any
	if err := yaml.Unmarshal([]byte(name), &read); len(invalid) == 0 && (err != nil || read != name) {
		r.note(path, NotMade, fmt.Sprintf("the operator makes no definition of this object: its template writes %s without quotes, which YAML does not parse as a string", name))
	}
}

// resource sets the annotation that names the resource pool.
func (r *rendering) resource(value string) {
	r.annotations[attachment.ResourceNameAnnotation] = value
	if problems := validation.IsQualifiedName(value); len(problems) > 0 {
		r.note(r.path.Child("resourceName"), Unserved, fmt.Sprintf("no node can have a resource %q: %s", value, strings.Join(problems, "; ")))
	}
}

// Package operators renders the NetworkAttachmentDefinition that a network
// operator would make of its custom resource. It performs no I/O.
//
// It follows two operators as they were when it was written:
//
//	sriov-network-operator 249e200 (v1.6.0-285): SriovNetwork, SriovIBNetwork, OVSNetwork
//	NVIDIA network-operator b06827e (v26.7.0-beta.5-65): MacvlanNetwork, HostDeviceNetwork, IPoIBNetwork
//
// Both fill in templates of text, and look neither at the values nor, in the
// case of NVIDIA's, at the result. So does this package, up to the same JSON
// values, and then refuses what no CNI runtime would accept. What the API
// server does with an object before an operator sees it (defaults, limits,
// unknown fields) is done here too, for objects that come from files.
//
// The definition has what the template has. It lacks what the controllers add
// for themselves: owner references, the labels and the revision by which
// NVIDIA's finds its objects again.
//
// Earlier versions differ little: sriov-network-operator writes cniVersion
// 1.0.0, logLevel and logFile since v1.3.0, and the owner-ref annotation after
// v1.6.0; NVIDIA's knows metaPlugins after v26.7.0-rc.2.
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

// DefaultResourcePrefix is what sriov-network-operator's own chart and scripts
// set. NVIDIA's chart, which contains it, sets "nvidia.com".
const DefaultResourcePrefix = "openshift.io"

// OwnerAnnotation is how sriov-network-operator knows its own: it overwrites a
// definition of the same name that lacks it, and leaves alone one with another
// value.
const OwnerAnnotation = "sriovnetwork.openshift.io/owner-ref"

// Options are what the operators know and the object does not say.
type Options struct {
	// ResourcePrefix is sriov-network-operator's RESOURCE_PREFIX. Empty means
	// DefaultResourcePrefix, and a note that says so.
	ResourcePrefix string
	// Namespace is that of namespaced objects that name none.
	Namespace string
	// OperatorNamespace is where sriov-network-operator runs, if that is known:
	// only there it lets an object choose another namespace.
	OperatorNamespace string
}

// GroupKind names a kind as objects do.
type GroupKind struct{ APIVersion, Kind string }

// Kinds are the custom resources that Render knows, in a fixed order.
func Kinds() []GroupKind {
	var out []GroupKind
	for _, k := range kinds {
		out = append(out, k.GroupKind)
	}
	return out
}

// Knows reports whether Render knows the kind.
func Knows(apiVersion, kind string) bool {
	return slices.Contains(Kinds(), GroupKind{apiVersion, kind})
}

// kind is what the operators do differently for each of their resources.
type kind struct {
	GroupKind
	// clusterScoped objects have no namespace that could be the definition's.
	clusterScoped bool
	cniVersion    string
	// namespace is the definition's where the object chooses none.
	namespace func(*rendering) string
	// fields are all of the CRD's spec.
	fields []string
	// plugin reads the spec and writes the configuration of the first plugin.
	plugin func(*rendering)
}

var kinds = []kind{sriovNetwork, sriovIBNetwork, ovsNetwork, macvlanNetwork, hostDeviceNetwork, ipoibNetwork}

// rendering is one object on its way.
type rendering struct {
	kind
	spec
	config
	opts      Options
	name      string
	namespace string // the object's
	// annotations are the definition's.
	annotations map[string]string
}

// Render makes the definition of an object, as decoded from YAML or JSON, and
// notes what a reader of the definition alone would not know: each field of the
// spec is in the definition or in a note. The error lists all that is wrong,
// each with its field. What Render makes, attachment.ParseNetwork accepts.
func Render(obj map[string]any, opts Options) (*nadv1.NetworkAttachmentDefinition, []Note, error) {
	apiVersion, _ := obj["apiVersion"].(string)
	name, _ := obj["kind"].(string)
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.GroupKind == GroupKind{apiVersion, name} })
	if i < 0 {
		return nil, nil, fmt.Errorf("rendering %s %q: no network operator is known for it: use one of %s", apiVersion, name, knownKinds())
	}
	r := rendering{kind: kinds[i], opts: opts, annotations: map[string]string{}}
	nad := r.render(obj)
	if len(r.errs) > 0 {
		return nil, r.notes, fmt.Errorf("rendering %s %s: %w", r.Kind, r.id(), r.errs.ToAggregate())
	}
	if _, err := attachment.ParseNetwork(nad); err != nil {
		return nil, r.notes, fmt.Errorf("rendering %s %s: what the operator would make is no CNI configuration: %w", r.Kind, r.id(), err)
	}
	return nad, r.notes, nil
}

func knownKinds() string {
	var out []string
	for _, k := range Kinds() {
		out = append(out, k.APIVersion+" "+k.Kind)
	}
	return strings.Join(out, ", ")
}

func (r *rendering) id() string {
	if r.namespace == "" {
		return r.name
	}
	return r.namespace + "/" + r.name
}

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

func (r *rendering) readMetadata(obj map[string]any) {
	path := field.NewPath("metadata")
	metadata, ok := obj["metadata"].(map[string]any)
	if !ok {
		r.errs = append(r.errs, field.Required(path, "the object needs a name: write metadata.name"))
		return
	}
	r.name = r.metadataText(metadata, "name")
	r.namespace = r.metadataText(metadata, "namespace")
	if r.name == "" {
		r.errs = append(r.errs, field.Required(path.Child("name"), "write a name: the definition gets the same"))
	} else {
		r.checkName(path.Child("name"), r.name, validation.IsDNS1123Subdomain)
	}
	switch {
	case r.namespace != "" && r.clusterScoped:
		r.note(path.Child("namespace"), LeftOut, "objects of this kind are in no namespace; spec.networkNamespace is the definition's")
		r.namespace = ""
	case r.namespace == "" && !r.clusterScoped:
		r.namespace = r.opts.Namespace
	}
}

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

// target is the namespace of the definition.
func (r *rendering) target() string {
	path := r.path.Child("networkNamespace")
	chosen := r.text("networkNamespace")
	if chosen == "" {
		return r.kind.namespace(r)
	}
	r.checkName(path, chosen, validation.IsDNS1123Label)
	if !r.clusterScoped && r.opts.OperatorNamespace != "" && r.namespace != r.opts.OperatorNamespace {
		r.note(path, NotMade, fmt.Sprintf("the operator makes no definition of this object: only objects in its own namespace, %s, may choose another one", r.opts.OperatorNamespace))
	}
	return chosen
}

// ownNamespace is the rule of sriov-network-operator: definitions are beside
// their objects.
func ownNamespace(r *rendering) string {
	path := field.NewPath("metadata", "namespace")
	if r.namespace == "" {
		r.note(path, Assumed, "is missing, and so it is in the definition: create that one in the same namespace as the object")
	} else {
		r.checkName(path, r.namespace, validation.IsDNS1123Label)
	}
	return r.namespace
}

// checkName is for names of the definition. The templates write them into YAML
// without quotes, and there 100, on and y are none.
func (r *rendering) checkName(path *field.Path, name string, problems func(string) []string) {
	invalid := problems(name)
	for _, problem := range invalid {
		r.errs = append(r.errs, field.Invalid(path, brief(name), problem))
	}
	var read any
	if err := yaml.Unmarshal([]byte(name), &read); len(invalid) == 0 && (err != nil || read != name) {
		r.note(path, NotMade, fmt.Sprintf("the operator makes no definition of this object: its template has %s without quotes, and YAML does not read that as a string", name))
	}
}

// resource sets the annotation by which Multus and nadra find the device pool.
func (r *rendering) resource(value string) {
	r.annotations[attachment.ResourceNameAnnotation] = value
	if problems := validation.IsQualifiedName(value); len(problems) > 0 {
		r.note(r.path.Child("resourceName"), Unserved, fmt.Sprintf("no node has a resource %q: %s", value, strings.Join(problems, "; ")))
	}
}

package translate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"go.yaml.in/yaml/v3"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	apifield "k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nadra-dev/nadra/internal/yamledit"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/operators"
)

// makesNetwork reports whether a network operator makes a NetworkAttachmentDefinition of an object.
func makesNetwork(o object) bool { return operators.Knows(o.ref.APIVersion, o.ref.Kind) }

// render checks the network that an operator would make of an object. defined has the networks of the
// input, which take precedence.
func (n *inputNetwork) render(e *environment, defined map[attachment.NetworkRef]*inputNetwork) {
	o := e.options.Operators
	if o.Namespace == "" {
		o.Namespace = e.options.namespace()
	}
	n.ref = n.target(o.Namespace)
	values, err := decoded(n.object)
	var notes []operators.Note
	var made *nadv1.NetworkAttachmentDefinition
	if err == nil {
		made, notes, err = operators.Render(values, o)
	}
	if there := defined[n.ref]; there != nil {
		n.duplicate = true
		n.compare(there.config, made, err)
		return
	}
	n.addNotes(notes)
	n.addErrors(err)
	if _, blocked := n.blocker(); blocked {
		n.blocked = fmt.Errorf("the operator makes no network %s of %s", n.ref, n.object.ref)
	} else {
		n.network, _ = networkOf(made)
		n.definition = e.standAlone(made, n.object)
		n.add(NetworkRendered, n.object.path, n.doc.at(n.object.node), "the operator makes network %s of it", n.ref)
		n.checkNodes(e, n.object.path)
	}
	n.index(e, n.object.path.Child("spec", "resourceName"))
}

// target returns the name of the network, even if it cannot be rendered. NVIDIA's operator makes
// the networks of objects without a namespace in "default".
func (n *inputNetwork) target(namespace string) attachment.NetworkRef {
	ref := attachment.NetworkRef{Namespace: str(get(n.object.node, "spec", "networkNamespace")), Name: n.object.ref.Name}
	switch {
	case ref.Namespace != "":
	case slices.Contains(clusterKinds, n.object.ref.Kind):
		ref.Namespace = "default"
	case n.object.stated != "":
		ref.Namespace = n.object.stated
	default:
		ref.Namespace = namespace
	}
	return ref
}

// decoded returns an object as the API server gets it. Clients parse YAML 1.1, in which on and yes
// without quotes are booleans.
func decoded(o object) (map[string]any, error) {
	var values map[string]any
	if err := o.node.Decode(&values); err != nil {
		return nil, fmt.Errorf("reading %s: %w", o.ref, err)
	}
	spec, _ := values["spec"].(map[string]any)
	yamledit.Entries(get(o.node, "spec"), func(key, value *yaml.Node) {
		var truth bool
		if value.Style == 0 && value.Kind == yaml.ScalarNode && spec != nil && value.Decode(&truth) == nil {
			spec[key.Value] = truth
		}
	})
	return values, nil
}

// compare reports a network of the input that differs from what its operator would make.
func (n *inputNetwork) compare(config string, made *nadv1.NetworkAttachmentDefinition, err error) {
	at := n.doc.at(n.object.node)
	if err != nil {
		n.add(NetworkDiffers, n.object.path, at, "%s exists, but the operator would not make it: %s", n.ref, reason.Message(err))
		return
	}
	if keys := differences(config, made.Spec.Config); len(keys) > 0 {
		n.add(NetworkDiffers, n.object.path, at, "%s has another %s in spec.config", n.ref, strings.Join(keys, ", "))
	}
}

// differences returns the top-level keys whose JSON values differ. It treats invalid JSON as an
// empty object.
func differences(a, b string) []string {
	var x, y map[string]any
	_ = json.Unmarshal([]byte(a), &x)
	_ = json.Unmarshal([]byte(b), &y)
	var keys []string
	for _, key := range sortedSet(slices.Concat(slices.Collect(maps.Keys(x)), slices.Collect(maps.Keys(y)))) {
		if !reflect.DeepEqual(x[key], y[key]) {
			keys = append(keys, key)
		}
	}
	return keys
}

// noteCodes has the code of each reason of a note.
var noteCodes = map[operators.Reason]Code{
	operators.Unknown:  OperatorFieldUnknown,
	operators.LeftOut:  OperatorFieldIdle,
	operators.Assumed:  OperatorAssumed,
	operators.Newer:    OperatorNewer,
	operators.Altered:  OperatorAlters,
	operators.Unserved: OperatorPoolUnserved,
	operators.NotMade:  OperatorFails,
}

func (n *inputNetwork) addNotes(notes []operators.Note) {
	for _, note := range notes {
		at := n.pathOf(note.Path)
		n.add(noteCodes[note.Reason], at, n.place(at), "%s", note.Why)
	}
}

// addErrors reports each error at its field.
func (n *inputNetwork) addErrors(err error) {
	var all utilerrors.Aggregate
	switch {
	case err == nil:
	case errors.As(err, &all):
		for _, one := range all.Errors() {
			var wrong *apifield.Error
			if errors.As(one, &wrong) {
				at := n.pathOf(wrong.Field)
				n.add(NotRendered, at, n.place(at), "%s", wrong.ErrorBody())
			}
		}
	default:
		n.add(NotRendered, n.object.path, n.doc.at(n.object.node), "%s", reason.Message(err))
	}
}

var pathStep = regexp.MustCompile(`[^.\[\]]+`)

// pathOf converts a path of pkg/operators, such as spec.trunk[0].id.
func (n *inputNetwork) pathOf(path string) Path {
	return n.object.path.Child(pathStep.FindAllString(path, -1)...)
}

// standAlone returns a definition for a cluster without its operator. It removes the annotation by
// which sriov-network-operator recognizes its definitions, because the operator would overwrite
// the definition and delete it with the object. If the object states no namespace, neither does
// the definition.
func (e *environment) standAlone(made *nadv1.NetworkAttachmentDefinition, o object) *nadv1.NetworkAttachmentDefinition {
	out := made.DeepCopy()
	delete(out.Annotations, operators.OwnerAnnotation)
	if len(out.Annotations) == 0 {
		out.Annotations = nil
	}
	assumed := o.stated == "" && e.options.Namespace == "" && e.options.Operators.Namespace == ""
	if assumed && o.ref.Namespace != "" && str(get(o.node, "spec", "networkNamespace")) == "" {
		out.Namespace = ""
	}
	return out
}

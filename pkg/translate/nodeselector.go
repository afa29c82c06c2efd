package translate

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// nodeSelectorEdits merge the labels of nodes that the pod's networks are for
// into its nodeSelector. As with the network resources injector they count over
// what the pod says, and of two networks the later one does.
func (p *planner) nodeSelectorEdits() []Edit {
	at := p.pod.at.Child("spec", "nodeSelector")
	own := get(p.pod.template, "spec", "nodeSelector")
	wanted := p.nodeLabels()
	wanted = slices.DeleteFunc(wanted, func(f field) bool {
		n := get(own, f.key)
		return n != nil && str(n) == f.value
	})
	var edits []Edit
	for _, f := range wanted {
		edits = append(edits, p.selectNode(at.Child(f.key), get(own, f.key), f))
	}
	if isEmpty(own) && len(wanted) > 0 {
		return []Edit{{Add, at, wanted}}
	}
	return edits
}

// nodeLabels are those that the networks ask for, in their order.
func (p *planner) nodeLabels() fields {
	var labels fields
	seen := map[attachment.NetworkRef]bool{}
	for i, s := range p.selections {
		n, _ := p.network(s.Network)
		if seen[s.Network] || strings.TrimSpace(n.nodeSelector) == "" {
			continue
		}
		seen[s.Network] = true
		l, err := readNodeSelector(n.nodeSelector)
		if err != nil {
			p.add(NodeSelectorUnread, p.annotationPath(attachment.NetworksAnnotation), p.place(i), "%s: %v", s.Network, err)
			continue
		}
		labels = slices.DeleteFunc(labels, func(f field) bool { return f.key == l.key })
		labels = append(labels, l)
	}
	return labels
}

// readNodeSelector reads key=value, or key where there is no value.
func readNodeSelector(text string) (field, error) {
	key, value, _ := strings.Cut(text, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	if len(validation.IsQualifiedName(key))+len(validation.IsValidLabelValue(value)) > 0 {
		return field{}, fmt.Errorf("%q is no label", text)
	}
	return field{key, value}, nil
}

// selectNode is the edit for one label; now is what the pod says of its key.
func (p *planner) selectNode(at Path, now *yaml.Node, f field) Edit {
	op, instead := Add, ""
	if now != nil {
		op, instead = Replace, fmt.Sprintf(", in place of %q", str(now))
	}
	p.add(NodeSelectorAdded, at, p.doc.at(p.annotation), "its networks are for nodes with %s=%s%s", f.key, f.value, instead)
	return Edit{op, at, f.value}
}

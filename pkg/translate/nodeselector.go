package translate

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nadra-dev/nadra/internal/yamledit"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// nodeSelector merges the node labels of a pod's networks into the pod's nodeSelector.
type nodeSelector struct{ *request }

// edits returns the edits of the nodeSelector. As with the network resources injector, the
// labels of the networks overrule those of the pod, and a later network overrules an earlier
// one.
func (s nodeSelector) edits() []Edit {
	own := s.pod.template.get("spec", "nodeSelector")
	wanted := s.labels()
	wanted = slices.DeleteFunc(wanted, func(f field) bool {
		n := own.get(f.Key)
		return n.node != nil && n.str() == f.Value
	})
	var edits []Edit
	for _, f := range wanted {
		edits = append(edits, s.edit(own.get(f.Key), f))
	}
	if yamledit.IsEmpty(own.node) && len(wanted) > 0 {
		return []Edit{{Op: Add, Path: own.path, Value: wanted}}
	}
	return edits
}

// labels returns the labels of the networks in their order.
func (s nodeSelector) labels() fields {
	var labels fields
	seen := map[attachment.NetworkRef]bool{}
	for i, selection := range s.selections {
		n, _ := s.network(selection.Network)
		if seen[selection.Network] || strings.TrimSpace(n.nodeSelector) == "" {
			continue
		}
		seen[selection.Network] = true
		l, err := readNodeSelector(n.nodeSelector)
		if err != nil {
			s.addFor(i, NodeSelectorUnread, "%s: %v", selection.Network, err)
			continue
		}
		labels = slices.DeleteFunc(labels, func(f field) bool { return f.Key == l.Key })
		labels = append(labels, l)
	}
	return labels
}

// readNodeSelector parses "key=value", or "key" for an empty value.
func readNodeSelector(text string) (field, error) {
	key, value, _ := strings.Cut(text, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	if len(validation.IsQualifiedName(key))+len(validation.IsValidLabelValue(value)) > 0 {
		return field{}, fmt.Errorf("%q is not a valid label", text)
	}
	return field{Key: key, Value: value}, nil
}

// edit returns the edit of one label and reports it. now is the pod's value of its key.
func (s nodeSelector) edit(now spot, f field) Edit {
	op, instead := Add, ""
	if now.node != nil {
		op, instead = Replace, fmt.Sprintf(" instead of %q", now.str())
	}
	s.add(NodeSelectorAdded, now.path, s.doc.at(s.annotation.node), "its networks are for nodes with %s=%s%s", f.Key, f.Value, instead)
	return Edit{Op: op, Path: now.path, Value: f.Value}
}

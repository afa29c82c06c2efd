package translate

import (
	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/internal/yamledit"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// checkTwice reports the first key on the way to one of the values that the rules read if the object has it twice:
// kubectl takes its last value.
func (r *reporter) checkTwice(paths ...Path) {
	for _, path := range paths {
		n := r.object.node
		for i := len(r.object.path); i < len(path) && n != nil; i++ {
			var keys []*yaml.Node
			n = yamledit.Resolved(n)
			yamledit.Entries(n, func(key, _ *yaml.Node) {
				if key.Value == path[i] {
					keys = append(keys, key)
				}
			})
			if len(keys) > 1 {
				r.add(NotEditable, path[:i+1], r.doc.at(keys[1]), "the key is given twice, and kubectl takes its last value: remove one")
				return
			}
			n = yamledit.Child(n, path[i])
		}
	}
}

// namePaths returns the paths of an object's name and namespace.
func (o object) namePaths() []Path {
	return []Path{o.path.Child("metadata", "name"), o.path.Child("metadata", "namespace")}
}

// readPaths returns the paths of the values of a pod that the rules read before they edit its spec.
func (p pod) readPaths() []Path {
	out := p.namePaths()
	for _, key := range append(networksKeys, attachment.DefaultNetworkAnnotation) {
		out = append(out, p.template.path.Child("metadata", "annotations", key))
	}
	for _, key := range podFields {
		out = append(out, p.template.path.Child("spec", key))
	}
	return append(out, p.template.path.Child("metadata", "labels", queueLabel))
}

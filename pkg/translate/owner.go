package translate

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// owned reports an object that has an owner.
func (r *reporter) owned(code Code) {
	if owner := ownerOf(r.object); owner != nil {
		at := r.doc.at(get(r.object.node, "metadata", "ownerReferences"))
		r.add(code, r.object.path.Child("metadata", "ownerReferences"), at, "%s %s owns it", owner.Kind, owner.Name)
	}
}

// ownerOf returns the controller of an object, or the first of its owners if none is the
// controller. It returns nil for an object without owners.
func ownerOf(o object) *ObjectRef {
	owners := items(get(o.node, "metadata", "ownerReferences"))
	if len(owners) == 0 {
		return nil
	}
	controller := slices.IndexFunc(owners, func(n *yaml.Node) bool { return str(get(n, "controller")) == "true" })
	owner := owners[max(controller, 0)]
	return &ObjectRef{
		APIVersion: str(get(owner, "apiVersion")), Kind: str(get(owner, "kind")),
		Namespace: o.ref.Namespace, Name: str(get(owner, "name")),
	}
}

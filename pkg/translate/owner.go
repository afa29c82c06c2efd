package translate

import (
	"slices"
)

// owned reports an object that has an owner.
func (r *reporter) owned(code Code) {
	if owner := ownerOf(r.object); owner != nil {
		r.addAt(code, r.object.get("metadata", "ownerReferences"), "%s %s owns it", owner.Kind, owner.Name)
	}
}

// ownerOf returns the controller of an object, or the first of its owners if none is the
// controller. It returns nil for an object without owners.
func ownerOf(o object) *ObjectRef {
	owners := o.get("metadata", "ownerReferences").items()
	if len(owners) == 0 {
		return nil
	}
	controller := slices.IndexFunc(owners, func(n spot) bool { return n.get("controller").str() == "true" })
	owner := owners[max(controller, 0)]
	return &ObjectRef{
		APIVersion: owner.get("apiVersion").str(), Kind: owner.get("kind").str(),
		Namespace: o.ref.Namespace, Name: owner.get("name").str(),
	}
}

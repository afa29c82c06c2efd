package translate

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// featureResources is that of pods whose limits or requests name the pool of
// one of their networks.
const featureResources = "resources"

// featuresOf are what a selection asks for beyond a network, by the standard's
// keys. A key that means nothing, or has an empty value, is no feature.
func featuresOf(s attachment.Selection) []string {
	var out []string
	for _, f := range []struct {
		key  string
		used bool
	}{
		{"interface", s.Interface != ""},
		{"ips", len(s.IPs) > 0},
		{"mac", s.MAC != ""},
		{"infiniband-guid", s.InfinibandGUID != ""},
		{"cni-args", len(s.CNIArgs) > 0},
		{"portMappings", len(s.PortMappings) > 0},
		{"bandwidth", s.Bandwidth != nil},
		{"default-route", s.DefaultRoute != nil},
		{"deviceID", s.DeviceID != ""},
		{"ipam-claim-reference", s.IPAMClaimReference != ""},
	} {
		if f.used {
			out = append(out, f.key)
		}
	}
	return out
}

// sortedSet sorts, and leaves out what is there already.
func sortedSet(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// owned reports an object that has an owner.
func (r *reporter) owned(code Code) {
	if owner := ownerOf(r.object); owner != nil {
		at := r.doc.at(get(r.object.node, "metadata", "ownerReferences"))
		r.add(code, r.object.path.Child("metadata", "ownerReferences"), at, "%s %s owns it", owner.Kind, owner.Name)
	}
}

// ownerOf is the controller that made an object, or else the first of its
// owners; nil where it has none.
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

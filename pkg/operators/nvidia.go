package operators

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// nvidiaGroup is NVIDIA network-operator's.
const nvidiaGroup = "mellanox.com/v1alpha1"

var macvlanNetwork = kind{
	GroupKind:     GroupKind{nvidiaGroup, "MacvlanNetwork"},
	clusterScoped: true,
	cniVersion:    "0.3.1",
	namespace:     namespaceDefault,
	fields:        []string{"networkNamespace", "master", "mode", "mtu", "ipam", "metaPlugins"},
	plugin: func(r *rendering) {
		r.member("type", "macvlan")
		r.quoted("master", "master")
		r.optional("mode", r.oneOf("mode", "bridge", "private", "vepa", "passthru"))
		r.unlessZero("mtu", unlimited)
		r.ipam(squeezed)
		r.newMetaPlugins()
	},
}

var hostDeviceNetwork = kind{
	GroupKind:     GroupKind{nvidiaGroup, "HostDeviceNetwork"},
	clusterScoped: true,
	cniVersion:    "0.3.1",
	namespace: func(r *rendering) string {
		r.errs = append(r.errs, field.Required(r.path.Child("networkNamespace"), "the operator makes no definition without: write the namespace of the pods"))
		return ""
	},
	fields: []string{"networkNamespace", "resourceName", "ipam", "metaPlugins"},
	plugin: func(r *rendering) {
		const prefix = "nvidia.com/"
		r.resource(prefix + strings.TrimPrefix(r.text("resourceName"), prefix))
		r.member("type", "host-device")
		r.ipam(asWritten)
		r.newMetaPlugins()
	},
}

var ipoibNetwork = kind{
	GroupKind:     GroupKind{nvidiaGroup, "IPoIBNetwork"},
	clusterScoped: true,
	cniVersion:    "0.3.1",
	namespace:     namespaceDefault,
	fields:        []string{"networkNamespace", "master", "ipam"},
	plugin: func(r *rendering) {
		r.member("type", "ipoib")
		if r.given["master"] == nil || r.given["master"] == "" {
			r.member("master", "") // its template has it always
		}
		r.quoted("master", "master")
		r.ipam(squeezed)
	},
}

func (r *rendering) newMetaPlugins() {
	if r.given["metaPlugins"] != nil {
		r.note(r.path.Child("metaPlugins"), Newer, "operators up to v26.7.0-rc.2 do not know the field, and make a definition without these plugins")
	}
	r.metaPlugins()
}

// namespaceDefault is the rule of NVIDIA's operator, except for host devices.
func namespaceDefault(r *rendering) string {
	r.note(r.path.Child("networkNamespace"), Assumed, "is missing, and the operator takes the namespace default")
	return "default"
}

package operators

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// nvidiaGroup is the apiVersion of NVIDIA's network-operator.
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
		r.errs = append(r.errs, field.Required(r.path.Child("networkNamespace"), "write the namespace of the pods: the operator makes no definition without it"))
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
			r.member("master", "") // the template always has it
		}
		r.quoted("master", "master")
		r.ipam(squeezed)
	},
}

// newMetaPlugins writes metaPlugins, with a note for operators that do not know it.
func (r *rendering) newMetaPlugins() {
	if r.given["metaPlugins"] != nil {
		r.note(r.path.Child("metaPlugins"), Newer, "operators up to v26.7.0-rc.2 do not know the field and make a definition without these plugins")
	}
	r.metaPlugins()
}

// namespaceDefault returns "default", as NVIDIA's operator does except for host devices.
func namespaceDefault(r *rendering) string {
	r.note(r.path.Child("networkNamespace"), Assumed, "is missing, so the operator uses namespace default")
	return "default"
}

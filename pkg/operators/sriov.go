package operators

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// sriovGroup is the apiVersion of sriov-network-operator.
const sriovGroup = "sriovnetwork.openshift.io/v1"

var sriovNetwork = kind{
	GroupKind:  GroupKind{sriovGroup, "SriovNetwork"},
	cniVersion: "1.0.0",
	namespace:  ownNamespace,
	fields: []string{
		"networkNamespace", "resourceName", "capabilities", "ipam", "vlan", "vlanQoS", "vlanProto", "spoofChk", "trust",
		"linkState", "minTxRate", "maxTxRate", "metaPlugins", "logLevel", "logFile",
	},
	plugin: func(r *rendering) {
		r.owned()
		r.prefixed()
		r.member("type", "sriov")
		r.member("vlan", r.number("vlan", 4094))
		r.optional("spoofchk", r.oneOf("spoofChk", "on", "off"))
		r.optional("trust", r.oneOf("trust", "on", "off"))
		r.member("vlanQoS", r.number("vlanQoS", 7))
		r.optional("vlanProto", r.oneOf("vlanProto", "802.1q", "802.1Q", "802.1ad", "802.1AD"))
		// A rate of 0 means no limit, and the template writes it, too.
		if rate, given := r.givenNumber("minTxRate", unlimited); given {
			r.member("min_tx_rate", rate)
		}
		if rate, given := r.givenNumber("maxTxRate", unlimited); given {
			r.member("max_tx_rate", rate)
		}
		r.capabilities()
		r.optional("link_state", r.linkState())
		r.optional("logLevel", r.logLevel())
		r.quoted("logFile", "logFile")
		r.ipam(squeezed)
		r.metaPlugins()
	},
}

var sriovIBNetwork = kind{
	GroupKind:  GroupKind{sriovGroup, "SriovIBNetwork"},
	cniVersion: "1.0.0",
	namespace:  ownNamespace,
	fields:     []string{"networkNamespace", "resourceName", "capabilities", "ipam", "linkState", "metaPlugins"},
	plugin: func(r *rendering) {
		r.owned()
		r.prefixed()
		r.member("type", "ib-sriov")
		r.capabilities()
		r.optional("link_state", r.linkState())
		r.ipam(squeezed)
		r.metaPlugins()
	},
}

var ovsNetwork = kind{
	GroupKind:  GroupKind{sriovGroup, "OVSNetwork"},
	cniVersion: "1.0.0",
	namespace:  ownNamespace,
	fields: []string{
		"networkNamespace", "resourceName", "capabilities", "ipam", "metaPlugins", "bridge", "vlan", "mtu", "trunk", "interfaceType",
	},
	plugin: func(r *rendering) {
		r.owned()
		r.prefixed()
		r.member("type", "ovs")
		r.capabilities()
		r.quoted("bridge", "bridge")
		r.unlessZero("vlan", 4095)
		r.unlessZero("mtu", unlimited)
		if trunk := r.trunk(); len(trunk) > 0 {
			r.member("trunk", trunk)
		}
		r.quoted("interface_type", "interfaceType")
		r.ipam(squeezed)
		r.metaPlugins()
	},
}

// owned marks the definition as the operator's own, unless the namespace of the object is unknown.
func (r *rendering) owned() {
	if r.namespace != "" {
		group, _, _ := strings.Cut(r.APIVersion, "/")
		r.annotations[OwnerAnnotation] = fmt.Sprintf("%s.%s/%s/%s", r.Kind, group, r.namespace, r.name)
	}
}

// prefixed sets the resource. It adds the prefix even if the name has it already.
func (r *rendering) prefixed() {
	path := r.path.Child("resourceName")
	if r.given["resourceName"] == nil {
		r.errs = append(r.errs, field.Required(path, "write the resourceName of the SriovNetworkNodePolicy whose devices the network should use"))
		return
	}
	name, ok := r.given["resourceName"].(string)
	if !ok {
		r.text("resourceName") // reports the error
		return
	}
	prefix := r.opts.ResourcePrefix
	if prefix == "" {
		prefix = DefaultResourcePrefix
		r.note(path, Assumed, "the prefix "+prefix+" is the operator's default, and NVIDIA's chart sets nvidia.com: compare RESOURCE_PREFIX of the operator's Deployment")
	}
	r.resource(prefix + "/" + name)
}

// linkState reads linkState.
func (r *rendering) linkState() string {
	return r.oneOf("linkState", "auto", "enable", "disable")
}

// logLevel reads logLevel. The CRD has a default, which an empty level overrides.
func (r *rendering) logLevel() string {
	if r.given["logLevel"] == nil {
		r.note(r.path.Child("logLevel"), Assumed, "is missing, so the CRD's default \"info\" applies")
		return "info"
	}
	return r.oneOf("logLevel", "panic", "error", "warning", "info", "debug")
}

// vlans is an element of a trunk: a VLAN or a range.
type vlans struct {
	MinID *int64 `json:"minID,omitempty"`
	MaxID *int64 `json:"maxID,omitempty"`
	ID    *int64 `json:"id,omitempty"`
}

// trunk reads the list of VLANs.
func (r *rendering) trunk() []vlans {
	value := r.value("trunk")
	if value == nil {
		return nil
	}
	path := r.path.Child("trunk")
	list, ok := value.([]any)
	if !ok {
		r.errs = append(r.errs, field.Invalid(path, brief(fmt.Sprint(value)), "must be a list of {id} or {minID, maxID}"))
		return nil
	}
	if len(list) == 0 {
		r.note(path, LeftOut, "is empty, which is as good as absent")
	}
	var out []vlans
	for i, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			r.errs = append(r.errs, field.Invalid(path.Index(i), brief(fmt.Sprint(item)), "must be {id} or {minID, maxID}"))
			continue
		}
		out = append(out, vlans{
			MinID: r.vlan(path.Index(i), fields, "minID"),
			MaxID: r.vlan(path.Index(i), fields, "maxID"),
			ID:    r.vlan(path.Index(i), fields, "id"),
		})
		r.unknownOf(path.Index(i), fields, []string{"minID", "maxID", "id"})
	}
	return out
}

// vlan reads a VLAN of a trunk, nil if it is missing.
func (r *rendering) vlan(path *field.Path, fields map[string]any, name string) *int64 {
	value, present := fields[name]
	if value == nil {
		if present {
			r.note(path.Child(name), LeftOut, "is null, which is as good as absent")
		}
		return nil
	}
	n, ok := r.integer(path.Child(name), value, 4095)
	if !ok {
		return nil
	}
	return &n
}

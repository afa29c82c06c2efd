package inspect

import (
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// index finds the objects of an input by what refers to them.
type index struct {
	unread    map[Kind]bool
	claims    map[string]*resourceapi.ResourceClaim // by namespace/name
	created   map[string]*resourceapi.ResourceClaim // by the pod's UID and its entry
	templates map[string]*resourceapi.ResourceClaimTemplate
	classes   map[string]*resourceapi.DeviceClass
	networks  map[attachment.NetworkRef]*nadv1.NetworkAttachmentDefinition
	byClass   map[string]attachment.NetworkRef                // networks by the names of their classes
	later     map[attachment.NetworkRef]attachment.NetworkRef // networks with long IDs
	published map[string]publishedDevice                      // by pool/device
	offers    map[attachment.NetworkID][]string               // nodes with devices that list the network
	pools     map[string][]string                             // nodes with devices of a resource pool
	drivers   map[string]bool                                 // nodes with a slice of nadra
	events    []*corev1.Event
}

// publishedDevice is a device of a slice: one of a resource pool, or one that lists networks.
type publishedDevice struct {
	// nodes are those that have it: one, or all of a profile. "" stands for nodes that are not known.
	nodes []string
	// resource is the resource pool, or "".
	resource string
	networks []attachment.NetworkID
	// room is the number of attachments that it takes, 0 for one without a limit. counted is set if addresses limit them.
	room    int64
	counted bool
}

// createdFor is the claim's annotation with the name of the pod's entry.
const createdFor = "resource.kubernetes.io/pod-claim-name"

func newIndex(in Input) *index {
	x := &index{
		unread: in.Unread, events: in.Events,
		claims: map[string]*resourceapi.ResourceClaim{}, created: map[string]*resourceapi.ResourceClaim{},
		templates: map[string]*resourceapi.ResourceClaimTemplate{}, classes: map[string]*resourceapi.DeviceClass{},
		networks: map[attachment.NetworkRef]*nadv1.NetworkAttachmentDefinition{}, byClass: map[string]attachment.NetworkRef{},
		published: map[string]publishedDevice{}, offers: map[attachment.NetworkID][]string{},
		pools: map[string][]string{}, drivers: map[string]bool{},
	}
	for _, c := range in.Claims {
		x.claims[c.Namespace+"/"+c.Name] = c
		if owner := metav1.GetControllerOf(c); owner != nil && owner.Kind == "Pod" {
			x.created[string(owner.UID)+"/"+c.Annotations[createdFor]] = c
		}
	}
	for _, t := range in.Templates {
		x.templates[t.Namespace+"/"+t.Name] = t
	}
	for _, c := range in.Classes {
		x.classes[c.Name] = c
	}
	for _, n := range in.Networks {
		ref := attachment.RefOf(n)
		x.networks[ref], x.byClass[attachment.DeviceClassName(ref)] = n, ref
	}
	x.later = attachment.LaterOfEqualID(in.Networks)
	for _, s := range in.Slices {
		x.addSlice(s, in.nodesOf(s))
	}
	return x
}

// idOf returns the ID by which nodes list a network.
func (x *index) idOf(network attachment.NetworkRef) attachment.NetworkID {
	if _, later := x.later[network]; later {
		return attachment.LongNetworkIDOf(network)
	}
	return attachment.NetworkIDOf(network)
}

// nodesOf returns the nodes of a slice, or "" if they are not known.
func (in Input) nodesOf(s *resourceapi.ResourceSlice) []string {
	if s.Spec.NodeName != nil {
		return []string{*s.Spec.NodeName}
	}
	if profile := s.Labels[v1alpha1.ProfileLabel]; profile != "" && in.Profiles != nil {
		return in.Profiles[profile]
	}
	return []string{""}
}

// addSlice adds a slice of these nodes.
func (x *index) addSlice(s *resourceapi.ResourceSlice, nodes []string) {
	if s.Spec.Driver != v1alpha1.DriverName {
		return
	}
	for _, node := range nodes {
		x.drivers[node] = node != ""
	}
	delete(x.drivers, "")
	for _, d := range s.Spec.Devices {
		device := publishedDevice{
			nodes: nodes, resource: ptr.Deref(d.Attributes[attachment.AttributeResourceName].StringValue, ""),
			networks: slices.Collect(attachment.NetworkIDs(d.Attributes)), room: roomOf(d),
		}
		_, device.counted = d.Capacity[attachment.CapacityAddresses]
		x.published[s.Spec.Pool.Name+"/"+d.Name] = device
		if device.resource != "" {
			x.pools[device.resource] = append(x.pools[device.resource], nodes...)
		}
		for _, id := range device.networks {
			x.offers[id] = append(x.offers[id], nodes...)
		}
	}
}

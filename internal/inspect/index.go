package inspect

import (
	"regexp"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	published map[string]attachment.NetworkRef // by pool/device
	offers    map[attachment.NetworkRef][]string
	pools     map[string][]string // nodes with devices of a resource pool
	drivers   map[string]bool     // nodes with a slice of nadra, which may be empty
}

// createdFor is the claim's annotation with the name of the pod's entry.
const createdFor = "resource.kubernetes.io/pod-claim-name"

func newIndex(in Input) *index {
	x := &index{
		unread: in.Unread,
		claims: map[string]*resourceapi.ResourceClaim{}, created: map[string]*resourceapi.ResourceClaim{},
		templates: map[string]*resourceapi.ResourceClaimTemplate{}, classes: map[string]*resourceapi.DeviceClass{},
		networks:  map[attachment.NetworkRef]*nadv1.NetworkAttachmentDefinition{},
		published: map[string]attachment.NetworkRef{}, offers: map[attachment.NetworkRef][]string{},
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
		x.networks[attachment.NetworkRef{Namespace: n.Namespace, Name: n.Name}] = n
	}
	for _, s := range in.Slices {
		x.addSlice(s)
	}
	return x
}

func (x *index) addSlice(s *resourceapi.ResourceSlice) {
	if s.Spec.Driver != v1alpha1.DriverName {
		return
	}
	node := ""
	if s.Spec.NodeName != nil {
		node = *s.Spec.NodeName
		x.drivers[node] = true
	}
	for _, d := range s.Spec.Devices {
		if pool := d.Attributes[attachment.AttributeResourceName].StringValue; pool != nil {
			x.pools[*pool] = append(x.pools[*pool], node)
			continue
		}
		ref, known := published(d)
		if !known {
			ref, known = x.named(d.Name)
		}
		if !known {
			continue
		}
		x.published[s.Spec.Pool.Name+"/"+d.Name] = ref
		x.offers[ref] = append(x.offers[ref], node)
	}
}

// published returns the network that a device names in its attributes, unless the name is
// shortened.
func published(d resourceapi.Device) (attachment.NetworkRef, bool) {
	namespace, name := d.Attributes["nadNamespace"].StringValue, d.Attributes["nadName"].StringValue
	if namespace == nil || name == nil || strings.HasSuffix(*name, "…") {
		return attachment.NetworkRef{}, false
	}
	return attachment.NetworkRef{Namespace: *namespace, Name: *name}, true
}

// numbered matches the names of devices if a network has several.
var numbered = regexp.MustCompile(`^(.+)-\d+$`)

// named returns the network whose device has this name, even if no slice has it now.
func (x *index) named(device string) (attachment.NetworkRef, bool) {
	base := device
	if m := numbered.FindStringSubmatch(device); m != nil {
		base = m[1] // the driver shortens it from the left, because the hash is at the end
	}
	for ref := range x.networks {
		if name := attachment.DeviceName(ref); name == device || strings.HasSuffix(name, base) && len(base) > 10 {
			return ref, true
		}
	}
	return attachment.NetworkRef{}, false
}

// networkOf returns the network of an allocated device.
func (x *index) networkOf(pool, device string) (attachment.NetworkRef, bool) {
	if ref, ok := x.published[pool+"/"+device]; ok {
		return ref, true
	}
	return x.named(device)
}

package inspect

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// wantsOfEntry returns the networks of one claim of a pod: none if the claim is for
// something else. claims has the names of claims in the pod's status.
func (x *index) wantsOfEntry(pod *corev1.Pod, entry *corev1.PodResourceClaim, claims map[string]string) []want {
	claim, unlinked := x.claimOf(pod, entry, claims)
	if claim == nil {
		template := x.templates[pod.Namespace+"/"+ptr.Deref(entry.ResourceClaimTemplateName, "")]
		if template == nil {
			return []want{{key: entry.Name, entry: entry, unknown: true}}
		}
		claim = &resourceapi.ResourceClaim{Spec: template.Spec.Spec}
		claim.Namespace = pod.Namespace
		wants := x.wantsOfClaim(claim)
		for i := range wants {
			wants[i].claim = nil
			wants[i].key, wants[i].entry = entry.Name+"/"+wants[i].key, entry
		}
		return wants
	}
	wants := x.wantsOfClaim(claim)
	for i := range wants {
		wants[i].key, wants[i].entry, wants[i].unlinked = entry.Name+"/"+wants[i].key, entry, unlinked
	}
	return wants
}

// claimOf returns the claim of an entry. unlinked reports that the claim was created for
// the pod, but the pod's status does not name it.
func (x *index) claimOf(
	pod *corev1.Pod, entry *corev1.PodResourceClaim, claims map[string]string,
) (claim *resourceapi.ResourceClaim, unlinked bool) {
	if name := entry.ResourceClaimName; name != nil {
		return x.claims[pod.Namespace+"/"+*name], false
	}
	if name := claims[entry.Name]; name != "" {
		return x.claims[pod.Namespace+"/"+name], false
	}
	claim = x.created[string(pod.UID)+"/"+entry.Name]
	return claim, claim != nil
}

// wantsOfClaim returns the networks of a claim, by its allocation or, without one, by its
// requests.
func (x *index) wantsOfClaim(claim *resourceapi.ResourceClaim) []want {
	options, results := x.optionsOf(claim), ownResults(claim)
	allocated := claim.Status.Allocation != nil
	if !allocated {
		results = expected(options)
	}
	if len(results) == 0 {
		return nil // a claim for something else costs no copy
	}
	wants := make([]want, len(results))
	for i, r := range results {
		w := want{key: fmt.Sprintf("%s/%d", r.Request, i), claim: claim, request: attachment.Option{Name: r.Request}}
		if at := slices.IndexFunc(options, func(o attachment.Option) bool { return o.Name == r.Request }); at >= 0 {
			w.request = options[at]
		}
		if allocated {
			w.result, w.status = &results[i], statusOf(claim, r)
		}
		wants[i] = w
	}
	x.readConfigs(claim, results, wants)
	return wants
}

// optionsOf returns the requests of a claim with all their alternatives or, if the claim is not allocated, the
// alternatives for nadra's devices that the scheduler tries first.
func (x *index) optionsOf(claim *resourceapi.ResourceClaim) (out []attachment.Option) {
	if claim.Status.Allocation == nil {
		return attachment.RequestsOfClaim(claim.Spec, claim.Namespace,
			func(name string) *resourceapi.DeviceClass { return x.classes[name] }).Ours
	}
	for _, r := range claim.Spec.Devices.Requests {
		out = append(out, attachment.OptionsOf(r)...)
	}
	return out
}

func ownResults(claim *resourceapi.ResourceClaim) []resourceapi.DeviceRequestAllocationResult {
	if claim.Status.Allocation == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(claim.Status.Allocation.Devices.Results), func(r resourceapi.DeviceRequestAllocationResult) bool {
		return r.Driver != v1alpha1.DriverName
	})
}

// expected returns the results that an allocation will have. None has more than AllocationResultsMaxSize.
func expected(options []attachment.Option) []resourceapi.DeviceRequestAllocationResult {
	var out []resourceapi.DeviceRequestAllocationResult
	for _, o := range options {
		for range min(max(o.Count, 1), resourceapi.AllocationResultsMaxSize-int64(len(out))) {
			out = append(out, resourceapi.DeviceRequestAllocationResult{Driver: v1alpha1.DriverName, Request: o.Name, Device: o.Name})
		}
	}
	return out
}

func statusOf(claim *resourceapi.ResourceClaim, r resourceapi.DeviceRequestAllocationResult) *resourceapi.AllocatedDeviceStatus {
	share := ""
	if r.ShareID != nil {
		share = string(*r.ShareID)
	}
	for i, d := range claim.Status.Devices {
		if d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device && ptr.Deref(d.ShareID, "") == share {
			return &claim.Status.Devices[i]
		}
	}
	return nil
}

// readConfigs sets the network of each want and the interface that it asks for. It reads
// the claim as the driver does.
func (x *index) readConfigs(claim *resourceapi.ResourceClaim, results []resourceapi.DeviceRequestAllocationResult, wants []want) {
	read := claim
	if claim.Status.Allocation == nil {
		read = claim.DeepCopy()
		read.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: results, Config: x.configsOf(claim.Spec, wants),
		}}
	}
	requested, err := attachment.FromClaim(read, attachment.AnyNetwork)
	for i := range wants {
		w := &wants[i]
		if w.problem = err; w.request.Undecided {
			continue
		}
		if err == nil {
			w.iface = requested[i].Selection.Interface
		}
		if err == nil && requested[i].Selection.Network != (attachment.NetworkRef{}) {
			w.network = &requested[i].Selection.Network
		} else if ref, ok := x.ofClass(w.request.Class); ok {
			w.network = &ref
		} else if ref, ok := configured(read, w.request.Name); ok {
			w.network = &ref
		}
		if s := w.status; s != nil && s.NetworkData != nil {
			w.iface = s.NetworkData.InterfaceName
		}
	}
}

// configured returns the network that a config names.
func configured(claim *resourceapi.ResourceClaim, request string) (attachment.NetworkRef, bool) {
	for _, c := range claim.Status.Allocation.Devices.Config {
		if c.Opaque == nil || c.Opaque.Driver != v1alpha1.DriverName || len(c.Requests) > 0 && !slices.Contains(c.Requests, request) {
			continue
		}
		config, err := v1alpha1.Decode(c.Opaque.Parameters.Raw)
		if err == nil && config.Network != nil {
			ref := attachment.FromConfig(*config).Network
			if ref.Namespace == "" {
				ref.Namespace = claim.Namespace
			}
			return ref, true
		}
	}
	return attachment.NetworkRef{}, false
}

// classConfigs returns the configs of a class. One of a network that is missing, or may not be read, names
// its network.
func (x *index) classConfigs(class string) []resourceapi.DeviceClassConfiguration {
	if c := x.classes[class]; c != nil {
		return c.Spec.Config
	}
	ref, ok := x.ofClass(class)
	if !ok {
		return nil
	}
	config, err := attachment.ClaimConfig("", attachment.Selection{Network: ref})
	if err != nil {
		return nil
	}
	return []resourceapi.DeviceClassConfiguration{{DeviceConfiguration: config.DeviceConfiguration}}
}

// configsOf returns the configs that an allocation will have.
func (x *index) configsOf(spec resourceapi.ResourceClaimSpec, wants []want) []resourceapi.DeviceAllocationConfiguration {
	var out []resourceapi.DeviceAllocationConfiguration
	for _, w := range wants {
		for _, c := range x.classConfigs(w.request.Class) {
			out = append(out, resourceapi.DeviceAllocationConfiguration{
				Source: resourceapi.AllocationConfigSourceClass, Requests: []string{w.request.Name}, DeviceConfiguration: c.DeviceConfiguration,
			})
		}
	}
	for _, c := range spec.Devices.Config {
		out = append(out, resourceapi.DeviceAllocationConfiguration{
			Source: resourceapi.AllocationConfigSourceClaim, Requests: c.Requests, DeviceConfiguration: c.DeviceConfiguration,
		})
	}
	return out
}

// ofClass returns the network that a class was created for.
func (x *index) ofClass(class string) (attachment.NetworkRef, bool) {
	ref, ours := attachment.ClassNetwork(class)
	if !ours {
		return attachment.NetworkRef{}, false
	}
	if known, found := x.byClass[class]; found {
		return known, true // the class's name may be shortened
	}
	return ref, true
}

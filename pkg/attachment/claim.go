package attachment

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// Requested is one allocated device of a claim and the network selected with it.
type Requested struct {
	// Request, Pool, Device and ShareID are from the allocation result.
	Request, Pool, Device, ShareID string
	// Selection is zero if the claim only requests the device.
	Selection Selection
	// Other is the allocated device that the selection names by DeviceFrom, or nil.
	Other *OtherDriverDevice
}

// DeviceOnly reports whether the claim requests the device without a network.
func (r Requested) DeviceOnly() bool { return r.Selection.Network == NetworkRef{} }

// FromClaim returns what a claim requests from this driver, in the order of its allocation results.
//
// FromClaim overlays the configs that cover a request: first those of the class, then those of the
// claim. Every config for this driver must be valid on its own, even if it covers no request. The
// network is that of the class: a config of the claim that names another one is refused. If the class
// names none, the claim chooses. suits returns an error if the claim may not attach the network with the
// allocated device; ofClass reports whether the class names the network.
func FromClaim(claim *resourceapi.ResourceClaim, suits func(r Requested, ofClass bool) error) ([]Requested, error) {
	requested, err := fromClaim(claim, suits)
	if err != nil {
		return nil, reason.Wrap(reason.ClaimInvalid,
			fmt.Errorf("reading claim %s/%s: %w", claim.Namespace, claim.Name, words.ShortError(err, maxMessage)))
	}
	return requested, nil
}

// AnyNetwork lets FromClaim accept each network, where the node has decided or will decide.
func AnyNetwork(Requested, bool) error { return nil }

func fromClaim(claim *resourceapi.ResourceClaim, suits func(r Requested, ofClass bool) error) ([]Requested, error) {
	if claim.Status.Allocation == nil {
		return nil, reason.Errorf(reason.ClaimNotAllocated, "status.allocation is missing: the claim is not allocated")
	}
	configs, err := claimConfigs(claim)
	if err != nil {
		return nil, err
	}
	var out []Requested
	// The devices of one request share the memory of its selection.
	selections := map[string]selected{}
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != v1alpha1.DriverName {
			continue
		}
		if err := checkAllocated(result); err != nil {
			return nil, err
		}
		s, known := selections[result.Request]
		if !known {
			config, ofClass, err := overlaid(configs, result.Request, claim.Namespace)
			if err != nil {
				return nil, fmt.Errorf("request %s: %w", result.Request, err)
			}
			s = selected{FromConfig(config), ofClass}
			selections[result.Request] = s
		}
		r := Requested{Request: result.Request, Pool: result.Pool, Device: result.Device, Selection: s.Selection}
		if from := r.Selection.DeviceFrom; from != "" {
			if r.Other, err = allocatedFor(claim, from); err != nil {
				return nil, fmt.Errorf("request %s: deviceFrom: %w", result.Request, err)
			}
		}
		if err := suits(r, s.ofClass); err != nil {
			return nil, fmt.Errorf("request %s: %w", result.Request, err)
		}
		if result.ShareID != nil {
			r.ShareID = string(*result.ShareID)
		}
		out = append(out, r)
	}
	return out, checkCovers(configs, claim.Status.Allocation.Devices.Results)
}

// namedRequests limits the requests that a message names. A claim may have hundreds, with their alternatives.
const namedRequests = 10

// CheckDeviceFrom refuses deviceFrom of a config, by the spec of the claim alone: the name of no request, or of one whose
// alternatives all are for devices of nadra's, for several devices or for administrators; and a config that covers only the request for
// the device. covered is empty if the config covers all requests. The classes of users, the devices and the alternatives
// that are allocated decide the rest.
func CheckDeviceFrom(spec resourceapi.ResourceClaimSpec, covered []string, from string) error {
	known := requestNames(spec)
	switch {
	case from == "":
		return nil
	case !slices.Contains(known, from):
		return reason.Errorf(reason.ClaimInvalid, "the claim has no request %q: use one of %s", from,
			strings.Join(words.ShortList(known, namedRequests), ", "))
	}
	var unfit error
	for _, r := range spec.Devices.Requests {
		for _, o := range OptionsOf(r) {
			switch {
			case !isOf(from, o.Name):
			case isOwnClass(o.Class):
				unfit = errOwnDevice(from)
			case o.AdminAccess:
				unfit = errAdminAccess(from)
			case o.Count > 1:
				unfit = errSeveralDevices(from, o.Count)
			default:
				return checkCovered(covered, from)
			}
		}
	}
	return unfit
}

// checkCovered refuses a config that covers only the request for the device.
func checkCovered(covered []string, from string) error {
	device, _, _ := strings.Cut(from, "/")
	if len(covered) > 0 && !slices.ContainsFunc(covered, func(name string) bool { return !isOf(device, name) }) {
		return errCoversNoNetwork(from, covered)
	}
	return nil
}

func errOwnDevice(request string) error {
	return reason.Errorf(reason.ClaimInvalid, "request %q has a device of nadra's own: name a request for a device of another driver. Networks get devices of nadra's pools by the NAD's annotation %s",
		request, ResourceNameAnnotation)
}

func errSeveralDevices(request string, n int64) error {
	return reason.Errorf(reason.ClaimInvalid,
		"request %q has %d devices, and a network uses one: set its count to 1, and add a request for each network", request, n)
}

func errCoversNoNetwork(from string, covered []string) error {
	return reason.Errorf(reason.ClaimInvalid, "the config with deviceFrom %s is for the requests %s, none of which is for a network: put the network's request into requests of the config",
		from, strings.Join(words.ShortList(covered, namedRequests), ", "))
}

// selected is what the configs of a request select. ofClass is true if the class names the network.
type selected struct {
	Selection
	ofClass bool
}

// checkCovers refuses a config with deviceFrom that covers no request of nadra's: the network would run without the
// device. Another alternative of a request may have been allocated.
func checkCovers(configs []claimConfig, results []resourceapi.DeviceRequestAllocationResult) error {
	for _, c := range configs {
		if c.config.DeviceFrom != "" && !slices.ContainsFunc(results, func(r resourceapi.DeviceRequestAllocationResult) bool {
			device, _, _ := strings.Cut(c.config.DeviceFrom, "/")
			return Covers(c.requests, r.Request) && (r.Driver == v1alpha1.DriverName ||
				strings.Contains(r.Request, "/") && !isOf(device, r.Request))
		}) {
			return errCoversNoNetwork(c.config.DeviceFrom, c.requests)
		}
	}
	return nil
}

// allocatedFor returns the device of another driver that was allocated for a request of the claim.
func allocatedFor(claim *resourceapi.ResourceClaim, request string) (*OtherDriverDevice, error) {
	var results []resourceapi.DeviceRequestAllocationResult
	for _, r := range claim.Status.Allocation.Devices.Results {
		if isOf(request, r.Request) {
			results = append(results, r)
		}
	}
	switch {
	case len(results) == 0:
		return nil, reason.Errorf(reason.ClaimInvalid,
			"no device was allocated for request %q: name the request without its subrequest", request)
	case len(results) > 1:
		return nil, errSeveralDevices(request, int64(len(results)))
	}
	r := results[0]
	if r.Driver == v1alpha1.DriverName {
		return nil, errOwnDevice(request)
	}
	if err := checkAllocated(r); err != nil {
		return nil, err
	}
	d := OtherDriverDevice{Claim: claim.Name, Driver: r.Driver, Pool: r.Pool, Device: r.Device, ShareID: string(ptr.Deref(r.ShareID, ""))}
	for _, s := range claim.Status.Devices {
		if s.Driver == d.Driver && s.Pool == d.Pool && s.Device == d.Device &&
			ptr.Deref(s.ShareID, "") == d.ShareID && s.NetworkData != nil {
			d.InPod = s.NetworkData.InterfaceName
		}
	}
	return &d, nil
}

// checkAllocated returns an error if a result does not give the device to the claim.
func checkAllocated(r resourceapi.DeviceRequestAllocationResult) error {
	if ptr.Deref(r.AdminAccess, false) {
		return errAdminAccess(r.Request)
	}
	return nil
}

func errAdminAccess(request string) error {
	return reason.Errorf(reason.ClaimInvalid, "request %s has adminAccess, which does not allocate the device: another pod may have it: remove adminAccess from the request", request)
}

// isOf reports whether a result's request is the one with a name, or a subrequest of it.
func isOf(name, request string) bool { return request == name || strings.HasPrefix(request, name+"/") }

// overlaid returns the overlay of all configs that cover a request. ofClass is true if the class names
// the network. The returned config has no network only if it is empty.
func overlaid(configs []claimConfig, request, claimNamespace string) (config v1alpha1.AttachmentConfig, ofClass bool, err error) {
	covering := []v1alpha1.AttachmentConfig{{TypeMeta: v1alpha1.TypeMeta()}}
	var network NetworkRef
	for _, c := range configs {
		if !Covers(c.requests, request) {
			continue
		}
		named := networkIn(c.config, claimNamespace)
		if c.class && named != (NetworkRef{}) {
			network, ofClass = named, true
		}
		if ofClass && named != (NetworkRef{}) && named != network {
			return config, true, reason.Errorf(reason.ClaimInvalid,
				"a config names network %s, but the request's DeviceClass is for network %s: "+
					"request DeviceClass %s, or leave network out of the config", named, network, DeviceClassName(named))
		}
		covering = append(covering, c.config)
	}
	config = v1alpha1.Overlay(covering...)
	network = networkIn(config, claimNamespace)
	if network == (NetworkRef{}) {
		if !reflect.DeepEqual(FromConfig(config), Selection{}) {
			return config, false, errNoNetwork
		}
		return config, false, nil
	}
	config.Network = &v1alpha1.NetworkReference{Namespace: network.Namespace, Name: network.Name}
	// Two valid configs can contradict each other.
	return config, ofClass, v1alpha1.AsError(config.Validate(field.NewPath("config")))
}

// networkIn returns the network that a config names, or the zero value.
func networkIn(c v1alpha1.AttachmentConfig, claimNamespace string) NetworkRef {
	if c.Network == nil {
		return NetworkRef{}
	}
	return NetworkRef{Namespace: cmp.Or(c.Network.Namespace, claimNamespace), Name: c.Network.Name}
}

// claimConfig is one config for this driver.
type claimConfig struct {
	// class is true if the config is the DeviceClass's.
	class    bool
	requests []string
	config   v1alpha1.AttachmentConfig
}

// Covers reports whether a config with the given names applies to a request. A config without requests applies to all,
// and a config of a request applies to its subrequests.
func Covers(names []string, request string) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return isOf(name, request) })
}

// claimConfigs returns the configs for this driver: first those of the class, then those of the
// claim, both in the order of the allocation. It decodes none if they are too large.
func claimConfigs(claim *resourceapi.ResourceClaim) ([]claimConfig, error) {
	var all []resourceapi.DeviceClaimConfiguration
	for _, c := range claim.Status.Allocation.Devices.Config {
		all = append(all, resourceapi.DeviceClaimConfiguration{Requests: c.Requests, DeviceConfiguration: c.DeviceConfiguration})
	}
	if err := checkConfigs(claim.Spec.Devices.Requests, all); err != nil {
		return nil, err
	}
	var class, own []claimConfig
	for i, c := range claim.Status.Allocation.Devices.Config {
		if c.Opaque == nil || c.Opaque.Driver != v1alpha1.DriverName {
			continue
		}
		path := field.NewPath("status", "allocation", "devices", "config").Index(i)
		config, err := readConfig(c, claim.Spec, path)
		if err != nil {
			return nil, err
		}
		if config.class {
			class = append(class, config)
		} else {
			own = append(own, config)
		}
	}
	return append(class, own...), nil
}

// readConfig decodes and validates a config. spec is that of the claim.
func readConfig(c resourceapi.DeviceAllocationConfiguration, spec resourceapi.ResourceClaimSpec, path *field.Path) (claimConfig, error) {
	known := requestNames(spec)
	for i, request := range c.Requests {
		if !slices.Contains(known, request) {
			return claimConfig{}, reason.Errorf(reason.ClaimInvalid, "%s: the claim has no request %q: use one of %s",
				path.Child("requests").Index(i), request, strings.Join(words.ShortList(known, namedRequests), ", "))
		}
	}
	path = path.Child("opaque", "parameters")
	config, err := v1alpha1.Decode(c.Opaque.Parameters.Raw)
	if err != nil {
		return claimConfig{}, fmt.Errorf("%s: %w", path, err)
	}
	if err := v1alpha1.AsError(config.Validate(path)); err != nil {
		return claimConfig{}, err
	}
	if err := CheckDeviceFrom(spec, c.Requests, config.DeviceFrom); err != nil {
		return claimConfig{}, fmt.Errorf("%s: %w", path.Child("deviceFrom"), err)
	}
	return claimConfig{c.Source == resourceapi.AllocationConfigSourceClass, c.Requests, *config}, nil
}

// requestNames returns the names of a claim's requests and subrequests.
func requestNames(spec resourceapi.ResourceClaimSpec) []string {
	var names []string
	for _, r := range spec.Devices.Requests {
		names = append(names, r.Name)
		for _, sub := range r.FirstAvailable {
			names = append(names, r.Name+"/"+sub.Name)
		}
	}
	return names
}

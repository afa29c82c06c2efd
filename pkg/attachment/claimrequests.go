package attachment

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// ClaimRequests is what the spec of a claim requests from nadra's driver, before the claim is
// allocated.
type ClaimRequests struct {
	// Selections are the networks of the claim, in the order in which the driver attaches them.
	Selections []Selection
	// Ours has the first alternative for nadra's devices of each request that has one.
	Ours []Option
	// Names are the names of the requests for networks.
	Names []string
	// Others is set if the claim also has requests for something else than networks.
	Others bool
	// Unknown is the first request for networks whose names or number the spec does not state.
	// Selections is incomplete if it is set.
	Unknown string
	// Err says that the claim exceeds MaxClaimConfigs. Its configs are not read then, and the node refuses it.
	Err error
}

// RequestsOfClaim reads the spec of a claim of a namespace. class returns a DeviceClass by its
// name, nil if it is unknown; a nil function knows no classes.
//
// A request is for a network by its DeviceClass (DeviceClassName, or a config of the class) or by a
// config of the claim that names a network.
func RequestsOfClaim(spec resourceapi.ResourceClaimSpec, namespace string, class func(name string) *resourceapi.DeviceClass) ClaimRequests {
	var out ClaimRequests
	if class == nil {
		class = func(string) *resourceapi.DeviceClass { return nil }
	}
	reader := requestReader{namespace: namespace, class: class, classes: map[string][]claimConfig{}, alone: len(spec.Devices.Requests) == 1}
	if out.Err = CheckConfigs(spec); out.Err != nil {
		spec.Devices.Config = nil
	}
	for _, c := range spec.Devices.Config {
		reader.configs = appendConfig(reader.configs, c.DeviceConfiguration, c.Requests)
	}
	for _, r := range spec.Devices.Requests {
		one := reader.read(r)
		if one.Name != "" {
			out.Ours = append(out.Ours, one.Option)
		}
		if !one.isNetwork {
			out.Others = true
			continue
		}
		out.Names = append(out.Names, r.Name)
		if !one.known && out.Unknown == "" {
			out.Unknown = r.Name
		}
		for range min(one.Count, int64(resourceapi.AllocationResultsMaxSize-len(out.Selections))) {
			out.Selections = append(out.Selections, one.selection)
		}
	}
	return out
}

// SelectionsOfClaims returns the networks that claims request together, in their order. If the list
// is incomplete, unknown says why. of returns what a claim requests, and the name of the object that
// has its spec.
func SelectionsOfClaims[C any](claims []C, of func(C) (requests ClaimRequests, source string)) (selections []Selection, unknown string) {
	for _, c := range claims {
		requests, source := of(c)
		if requests.Unknown != "" && unknown == "" {
			unknown = fmt.Sprintf("the allocation decides the networks of request %q of %s", requests.Unknown, source)
		}
		selections = append(selections, requests.Selections...)
	}
	return selections, unknown
}

// requestReader reads the requests of a claim. It decodes each config once.
type requestReader struct {
	namespace string
	class     func(name string) *resourceapi.DeviceClass
	// classes has the configs of classes by the classes' names, configs those of the claim.
	classes map[string][]claimConfig
	configs []claimConfig
	// alone is true if the claim has a single request.
	alone bool
}

// requested is the first alternative for nadra's devices of a request. Its name is empty if there is none.
type requested struct {
	Option
	selection Selection
	// isNetwork is true if an alternative is for a network.
	isNetwork bool
	// known is false if the allocation decides the network or the count.
	known bool
}

// read reads one request. The network is known only if all alternatives of the request agree.
func (reader requestReader) read(r resourceapi.DeviceRequest) (out requested) {
	options := OptionsOf(r)
	ours, differ := 0, false
	out.known = true
	for _, o := range options {
		s, isNetwork, sure := reader.selection(o)
		if !isNetwork && !reader.isOurs(o) {
			continue
		}
		if ours++; ours == 1 {
			out.selection, out.Option = s, o
		}
		differ = differ || s.Network != out.selection.Network || s.Interface != out.selection.Interface || o.Count != out.Count
		out.isNetwork, out.known = out.isNetwork || isNetwork, out.known && sure && o.Count > 0
	}
	out.Undecided = differ || ours < len(options)
	out.known = out.known && !out.Undecided
	return out
}

// Option is a request, or one alternative of a request.
type Option struct {
	// Name is the request's name in configs, for an alternative request/alternative.
	Name, Class string
	// Index is the index of an alternative, or -1.
	Index       int
	AdminAccess bool
	selectors   []resourceapi.DeviceSelector
	// Count is 0 if the allocation decides it.
	Count int64
	// Undecided is set in ClaimRequests if the allocation may choose an alternative with another network, or with none.
	Undecided bool
}

// OptionsOf returns the alternatives of a request, or the request itself.
func OptionsOf(r resourceapi.DeviceRequest) (out []Option) {
	count := func(mode resourceapi.DeviceAllocationMode, n int64) int64 {
		if mode == resourceapi.DeviceAllocationModeAll {
			return 0
		}
		return max(n, 1)
	}
	if e := r.Exactly; e != nil {
		out = append(out,
			Option{r.Name, e.DeviceClassName, -1, ptr.Deref(e.AdminAccess, false), e.Selectors, count(e.AllocationMode, e.Count), false})
	}
	for i, s := range r.FirstAvailable {
		out = append(out, Option{r.Name + "/" + s.Name, s.DeviceClassName, i, false, s.Selectors, count(s.AllocationMode, s.Count), false})
	}
	if len(out) == 0 {
		out = []Option{{Name: r.Name, Index: -1}}
	}
	return out
}

// selection returns the network of an option. sure is false if its name is unknown.
func (reader requestReader) selection(o Option) (s Selection, isNetwork, sure bool) {
	ours := reader.alone || reader.isOurs(o)
	var covering []v1alpha1.AttachmentConfig
	for _, c := range reader.ofClass(o.Class) {
		covering = append(covering, c.config)
	}
	for _, c := range reader.configs {
		// A config of all requests does not cover those for other drivers.
		if (ours || len(c.requests) > 0) && Covers(c.requests, o.Name) {
			covering = append(covering, c.config)
		}
	}
	s = FromConfig(v1alpha1.Overlay(covering...))
	byClass, ofNetwork := ClassNetwork(o.Class)
	if ofNetwork && DeviceClassName(byClass) == o.Class {
		s.Network = byClass
	}
	if s.Network.Namespace == "" {
		s.Network.Namespace = reader.namespace
	}
	known := s.Network.Name != ""
	return s, ofNetwork || known, known
}

// ofClass returns the configs of a class.
func (reader requestReader) ofClass(name string) []claimConfig {
	configs, read := reader.classes[name]
	if read {
		return configs
	}
	if class := reader.class(name); class != nil {
		for _, c := range class.Spec.Config {
			configs = appendConfig(configs, c.DeviceConfiguration, nil)
		}
	}
	reader.classes[name] = configs
	return configs
}

// isOurs reports whether an option is for nadra's devices by the name, configs or selectors of its class, or by its own
// selectors.
func (reader requestReader) isOurs(o Option) bool {
	selectors := o.selectors
	if class := reader.class(o.Class); class != nil {
		selectors = slices.Concat(selectors, class.Spec.Selectors)
	}
	return isOwnClass(o.Class) || len(reader.ofClass(o.Class)) > 0 ||
		slices.ContainsFunc(selectors, func(s resourceapi.DeviceSelector) bool {
			return s.CEL != nil && ofDriver.MatchString(s.CEL.Expression)
		})
}

// ofDriver matches an expression of CEL that has the driver's name as a string.
var ofDriver = regexp.MustCompile(`["']` + regexp.QuoteMeta(v1alpha1.DriverName) + `["']`)

// appendConfig appends a config if it is for nadra's driver and valid.
func appendConfig(to []claimConfig, c resourceapi.DeviceConfiguration, requests []string) []claimConfig {
	if c.Opaque == nil || c.Opaque.Driver != v1alpha1.DriverName {
		return to
	}
	config, err := v1alpha1.Decode(c.Opaque.Parameters.Raw)
	if err != nil {
		return to // the driver refuses it when it prepares the claim
	}
	return append(to, claimConfig{requests: requests, config: *config})
}

// NetworksValue returns the value of the networks annotation that names selections, each with its
// namespace and with the interface that it requests. It returns the comma form unless only JSON
// can express the names.
func NetworksValue(selections []Selection) string {
	type entry struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		Interface string `json:"interface,omitempty"`
	}
	var short []string
	var long []entry
	for _, s := range selections {
		one := s.Network.String()
		if s.Interface != "" {
			one += "@" + s.Interface
		}
		short = append(short, one)
		long = append(long, entry{s.Network.Name, s.Network.Namespace, s.Interface})
	}
	value := strings.Join(short, ",")
	if _, err := ParseSelections(value, ""); err != nil {
		return string(mustJSON(long))
	}
	return value
}

// SameNetworks reports whether two lists name the same networks in the same order, with the same
// interfaces.
func SameNetworks(a, b []Selection) bool {
	names, err := InterfaceNames(a)
	others, otherErr := InterfaceNames(b)
	if err != nil || otherErr != nil || !slices.Equal(names, others) {
		return false
	}
	return slices.EqualFunc(a, b, func(a, b Selection) bool { return a.Network == b.Network })
}

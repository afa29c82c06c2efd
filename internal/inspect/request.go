package inspect

import (
	"regexp"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// request is a claim's request, or the first of its alternatives for this driver.
type request struct {
	name, class string
	selectors   []resourceapi.DeviceSelector
	count       int64
}

// requestsOf returns the requests of a claim that are for this driver.
func (x *index) requestsOf(spec resourceapi.ResourceClaimSpec) []request {
	var out []request
	for _, r := range spec.Devices.Requests {
		if e := r.Exactly; e != nil && x.isOurs(e.DeviceClassName) {
			out = append(out, request{r.Name, e.DeviceClassName, e.Selectors, max(e.Count, 1)})
		}
		for _, sub := range r.FirstAvailable {
			if x.isOurs(sub.DeviceClassName) {
				out = append(out, request{r.Name + "/" + sub.Name, sub.DeviceClassName, sub.Selectors, max(sub.Count, 1)})
				break
			}
		}
	}
	return out
}

// isOurs reports whether a class selects this driver's devices.
func (x *index) isOurs(class string) bool {
	if _, ours := attachment.ClassNetwork(class); ours || class == v1alpha1.DriverName {
		return true
	}
	c := x.classes[class]
	if c == nil {
		return false
	}
	for _, config := range c.Spec.Config {
		if config.Opaque != nil && config.Opaque.Driver == v1alpha1.DriverName {
			return true
		}
	}
	for _, s := range c.Spec.Selectors {
		if s.CEL != nil && strings.Contains(s.CEL.Expression, v1alpha1.DriverName) {
			return true
		}
	}
	return false
}

// networkOfRequest returns the network that a request selects by its class or by its
// selectors.
func (x *index) networkOfRequest(r request) (attachment.NetworkRef, bool) {
	if ref, ok := x.ofClass(r.class); ok {
		return ref, true
	}
	selectors := r.selectors
	if c := x.classes[r.class]; c != nil {
		selectors = append(selectors[:len(selectors):len(selectors)], c.Spec.Selectors...)
	}
	return selected(selectors)
}

// ofClass returns the network that a class was created for.
func (x *index) ofClass(class string) (attachment.NetworkRef, bool) {
	ref, ours := attachment.ClassNetwork(class)
	if !ours {
		return attachment.NetworkRef{}, false
	}
	if attachment.DeviceClassName(ref) == class && x.networks[ref] != nil {
		return ref, true
	}
	for known := range x.networks { // the class's name may be shortened
		if attachment.DeviceClassName(known) == class {
			return known, true
		}
	}
	return ref, true
}

var (
	selectsNamespace = regexp.MustCompile(`\.nadNamespace\s*==\s*["']([^"']+)["']`)
	selectsName      = regexp.MustCompile(`\.nadName\s*==\s*["']([^"']+)["']`)
)

// selected returns the network that selectors name in the form of nadra's documentation.
// What other selectors select is unknown before the allocation.
func selected(selectors []resourceapi.DeviceSelector) (attachment.NetworkRef, bool) {
	var text strings.Builder
	for _, s := range selectors {
		if s.CEL != nil {
			text.WriteString(s.CEL.Expression + "\n")
		}
	}
	namespace, name := selectsNamespace.FindStringSubmatch(text.String()), selectsName.FindStringSubmatch(text.String())
	if namespace == nil || name == nil {
		return attachment.NetworkRef{}, false
	}
	return attachment.NetworkRef{Namespace: namespace[1], Name: name[1]}, true
}

package inspect

import (
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// request is a claim's request, or the first of its alternatives for this driver.
type request struct {
	name, class string
	count       int64
}

// requestsOf returns the requests of a claim that are for this driver.
func (x *index) requestsOf(spec resourceapi.ResourceClaimSpec) []request {
	var out []request
	for _, r := range spec.Devices.Requests {
		if e := r.Exactly; e != nil && x.isOurs(e.DeviceClassName) {
			out = append(out, request{r.Name, e.DeviceClassName, max(e.Count, 1)})
		}
		for _, sub := range r.FirstAvailable {
			if x.isOurs(sub.DeviceClassName) {
				out = append(out, request{r.Name + "/" + sub.Name, sub.DeviceClassName, max(sub.Count, 1)})
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

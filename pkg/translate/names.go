package translate

import (
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// checkName reports a name or namespace that the API server refuses, and a network whose class would get
// a name that it refuses. A name that the API server generates is not checked.
func (r *reporter) checkName() {
	metadata := r.object.get("metadata")
	if r.object.stated != "" {
		if len(validation.IsDNS1123Label(r.object.stated)) > 0 {
			r.addAt(NameInvalid, metadata.get("namespace"), "%q is not a namespace: use at most 63 lower-case letters, digits and '-', with a letter or digit first and last", r.object.stated)
			return
		}
	}
	name := metadata.get("name").str()
	if name == "" {
		return
	}
	valid := len(validation.IsDNS1123Subdomain(name)) == 0
	if valid && isNetwork(r.object) {
		valid = len(validation.IsDNS1123Subdomain(attachment.DeviceClassName(refOf(r.object.ref)))) == 0
	}
	if !valid {
		r.addAt(NameInvalid, metadata.get("name"), "%q is not a name: use at most 253 lower-case letters, digits, '-' and '.', with a letter or digit first and last", name)
	}
}

package v1alpha1

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxInterfaceName is the kernel's IFNAMSIZ without the terminating zero byte.
const maxInterfaceName = 15

// Validate returns the errors of a config, at most maxErrors, with shortened values. It is stricter than Multus, which passes some
// invalid values to plugins (behaviours A2-15 to A2-25): hardware addresses of another
// length, port mappings and bandwidths out of range, interface names in the JSON form.
func (c *AttachmentConfig) Validate(path *field.Path) field.ErrorList {
	return brief(slices.Concat(
		validateNetwork(c.Network, path.Child("network")),
		validateInterface(c.Interface, path.Child("interface")),
		validateIPs(c.IPs, path.Child("ips")),
		validateHardwareAddress(c.MAC, macSize, path.Child("mac")),
		validateHardwareAddress(c.InfinibandGUID, guidSize, path.Child("infinibandGUID")),
		validateCNIArgs(c.CNIArgs, path.Child("cniArgs")),
		validatePortMappings(c.PortMappings, path.Child("portMappings")),
		validateBandwidth(c.Bandwidth, path.Child("bandwidth")),
		validateDefaultRoute(c.DefaultRoute, path.Child("defaultRoute")),
		validateDeviceID(c.DeviceID, path.Child("deviceID")),
		validateDeviceFrom(c, path.Child("deviceFrom")),
		validateIPAMClaim(c, path.Child("ipamClaimReference")),
	))
}

// validateNetwork requires an object name, which may be a DNS subdomain, and not the
// standard's DNS label, as Multus does in the JSON form (behaviour A1-5).
func validateNetwork(n *NetworkReference, path *field.Path) field.ErrorList {
	if n == nil {
		return nil
	}
	var errs field.ErrorList
	if n.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "name a NetworkAttachmentDefinition"))
	} else {
		errs = append(errs, invalid(path.Child("name"), n.Name, validation.IsDNS1123Subdomain)...)
	}
	if n.Namespace != "" {
		errs = append(errs, invalid(path.Child("namespace"), n.Namespace, validation.IsDNS1123Label)...)
	}
	return errs
}

// invalid returns an error for each message of a check.
func invalid(path *field.Path, value string, check func(string) []string) field.ErrorList {
	var errs field.ErrorList
	for _, message := range check(value) {
		errs = append(errs, field.Invalid(path, value, message))
	}
	return errs
}

// validateInterface applies the kernel's rules for names of network devices
// (dev_valid_name), which are also CNI's.
func validateInterface(name string, path *field.Path) field.ErrorList {
	switch {
	case name == "":
		return nil
	case len(name) > maxInterfaceName:
		return field.ErrorList{field.Invalid(path, name, "must have at most 15 bytes")}
	case name == "." || name == "..":
		return field.ErrorList{field.Invalid(path, name, `must not be "." or ".."`)}
	case name == "lo":
		return field.ErrorList{field.Invalid(path, name, "is the loopback interface that every pod has")}
	case strings.ContainsFunc(name, forbiddenInInterface):
		return field.ErrorList{field.Invalid(path, name, "must not contain '/', ':', white space or control characters")}
	}
	return nil
}

// forbiddenInInterface reports whether an interface name must not contain r.
func forbiddenInInterface(r rune) bool {
	return r == '/' || r == ':' || unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar
}

// validateCNIArgs rejects empty keys and invalid values. Only Go code can make invalid
// values: decoded JSON has none.
func validateCNIArgs(args map[string]json.RawMessage, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(args)) {
		if key == "" {
			errs = append(errs, field.Required(path, "a key must not be empty"))
		}
		if !json.Valid(args[key]) {
			errs = append(errs, field.Invalid(path.Key(key), string(args[key]), "must be JSON"))
		}
	}
	return errs
}

// validateDeviceID rejects IDs that lead out of the directory in which plugins look up a
// device, or that are too long for a file's name.
func validateDeviceID(id string, path *field.Path) field.ErrorList {
	if len(id) > MaxDeviceID {
		return field.ErrorList{field.TooLong(path, "", MaxDeviceID)}
	}
	if id == "." || id == ".." || strings.ContainsFunc(id, forbiddenInDeviceID) {
		return field.ErrorList{field.Invalid(path, id, "must be the name of one device, without '/' or white space, e.g. 0000:03:00.1")}
	}
	return nil
}

// validateDeviceFrom requires the name of a request, or of a subrequest behind that of its request.
func validateDeviceFrom(c *AttachmentConfig, path *field.Path) field.ErrorList {
	if c.DeviceFrom == "" {
		return nil
	}
	request, sub, _ := strings.Cut(c.DeviceFrom, "/")
	errs := invalid(path, request, validation.IsDNS1123Label)
	if sub != "" || strings.HasSuffix(c.DeviceFrom, "/") {
		errs = append(errs, invalid(path, sub, validation.IsDNS1123Label)...)
	}
	if c.DeviceID != "" {
		errs = append(errs, field.Forbidden(path, "the config also has deviceID: name the device once"))
	}
	return errs
}

// forbiddenInDeviceID reports whether a device ID must not contain r.
func forbiddenInDeviceID(r rune) bool {
	return r == '/' || unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar
}

// validateIPAMClaim rejects an IPAMClaim together with addresses.
func validateIPAMClaim(c *AttachmentConfig, path *field.Path) field.ErrorList {
	if c.IPAMClaimReference == "" {
		return nil
	}
	errs := invalid(path, c.IPAMClaimReference, validation.IsDNS1123Subdomain)
	if len(c.IPs) > 0 {
		errs = append(errs, field.Forbidden(path, "excludes ips: the IPAMClaim decides the addresses"))
	}
	return errs
}

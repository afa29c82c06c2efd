package admission

import (
	"cmp"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Claim validates what a claim of a namespace has for nadra.
func Claim(spec resourceapi.ResourceClaimSpec, namespace string, i attachment.Isolation) field.ErrorList {
	return validator{namespace, i}.claim(spec, field.NewPath("spec"))
}

// Template validates what a template has for nadra.
func Template(spec resourceapi.ResourceClaimTemplateSpec, namespace string, i attachment.Isolation) field.ErrorList {
	return validator{namespace, i}.claim(spec.Spec, field.NewPath("spec", "spec"))
}

// Class validates what a class has for nadra. A class with the name of a network's class must be for
// that network, even if nadra's controller did not create it.
func Class(class *resourceapi.DeviceClass) field.ErrorList {
	var errs field.ErrorList
	for i, c := range class.Spec.Config {
		at := field.NewPath("spec", "config").Index(i).Child("opaque", "parameters")
		config, found, problems := ours(c.DeviceConfiguration, at)
		errs = append(errs, problems...)
		if !found || config.Network == nil {
			continue
		}
		if _, named := attachment.ClassNetwork(class.Name); named {
			errs = append(errs, sameNetwork(*config.Network, "", class.Name, at.Child("network"))...)
		}
	}
	return errs
}

// validator validates claims of a namespace.
type validator struct {
	namespace string
	isolation attachment.Isolation
}

// claim validates requests and configs.
func (v validator) claim(spec resourceapi.ResourceClaimSpec, path *field.Path) field.ErrorList {
	devices := path.Child("devices")
	if err := attachment.CheckConfigs(spec); err != nil {
		return tooLong(devices.Child("config"), err)
	}
	var errs field.ErrorList
	var options []attachment.Option
	for i, r := range spec.Devices.Requests {
		for _, o := range attachment.OptionsOf(r) {
			errs = append(errs, v.option(o, devices.Child("requests").Index(i))...)
			options = append(options, o)
		}
	}
	for i, c := range spec.Devices.Config {
		at := devices.Child("config").Index(i).Child("opaque", "parameters")
		config, found, problems := ours(c.DeviceConfiguration, at)
		errs = append(errs, problems...)
		if found && config.Network != nil {
			errs = append(errs, v.network(*config.Network, c.Requests, options, at.Child("network"))...)
		}
		if !found {
			continue
		}
		if err := attachment.CheckDeviceFrom(spec, c.Requests, config.DeviceFrom); err != nil {
			errs = append(errs, field.Invalid(at.Child("deviceFrom"), config.DeviceFrom, reason.Message(err)))
		}
	}
	return errs
}

// option validates an option of the request at a path whose class is a network's.
func (v validator) option(o attachment.Option, path *field.Path) field.ErrorList {
	network, ofNetwork := attachment.ClassNetwork(o.Class)
	if !ofNetwork {
		return nil
	}
	if o.Index >= 0 {
		path = path.Child("firstAvailable").Index(o.Index)
	} else {
		path = path.Child("exactly")
	}
	var errs field.ErrorList
	if o.AdminAccess {
		errs = append(errs, field.Forbidden(path.Child("adminAccess"),
			"networks cannot be requested with administrative access: remove it"))
	}
	if err := v.isolation.Allow(v.namespace, network); err != nil {
		errs = append(errs, field.Forbidden(path.Child("deviceClassName"), err.Error()))
	}
	return errs
}

// network validates the network that a config names. The node validates requests of other classes,
// whose devices are unknown here.
func (v validator) network(n v1alpha1.NetworkReference, covered []string, options []attachment.Option, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	ref := attachment.NetworkRef{Namespace: cmp.Or(n.Namespace, v.namespace), Name: n.Name}
	if err := v.isolation.Allow(v.namespace, ref); err != nil {
		errs = append(errs, field.Forbidden(path, err.Error()))
	}
	for _, o := range options {
		if _, ofNetwork := attachment.ClassNetwork(o.Class); ofNetwork && attachment.Covers(covered, o.Name) {
			if problems := sameNetwork(n, v.namespace, o.Class, path); len(problems) > 0 {
				return append(errs, problems...)
			}
		}
	}
	return errs
}

// sameNetwork checks that a network has the given class. It compares names of classes, because a
// shortened name does not have the whole network.
func sameNetwork(n v1alpha1.NetworkReference, defaultNamespace, class string, path *field.Path) field.ErrorList {
	ref := attachment.NetworkRef{Namespace: cmp.Or(n.Namespace, defaultNamespace), Name: n.Name}
	if ref.Namespace == "" {
		return field.ErrorList{field.Required(path.Child("namespace"), fmt.Sprintf("class %s is for a network of one namespace: write the namespace", class))}
	}
	if attachment.DeviceClassName(ref) == class {
		return nil
	}
	return field.ErrorList{field.Invalid(path, ref.String(),
		fmt.Sprintf("is not the network of class %s: use class %s, or remove network", class, attachment.DeviceClassName(ref)))}
}

// ours decodes and validates a config if it is for nadra's driver.
func ours(c resourceapi.DeviceConfiguration, path *field.Path) (config *v1alpha1.AttachmentConfig, found bool, errs field.ErrorList) {
	if c.Opaque == nil || c.Opaque.Driver != v1alpha1.DriverName {
		return nil, false, nil
	}
	config, err := v1alpha1.Decode(c.Opaque.Parameters.Raw)
	if reason.Of(err) == reason.LimitExceeded {
		return nil, false, tooLong(path, err)
	}
	if err != nil {
		return nil, false, field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	if errs := config.Validate(path); len(errs) > 0 {
		return nil, false, errs
	}
	return config, true, nil
}

// tooLong returns an error about a limit.
func tooLong(path *field.Path, err error) field.ErrorList {
	return field.ErrorList{{Type: field.ErrorTypeTooLong, Field: path.String(), BadValue: field.OmitValueType{}, Detail: reason.Message(err)}}
}

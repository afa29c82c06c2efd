package admission

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Claim reports what a claim of a namespace says to nadra that is not valid.
func Claim(spec resourceapi.ResourceClaimSpec, namespace string, i attachment.Isolation) field.ErrorList {
	return validator{namespace, i}.claim(spec, field.NewPath("spec"))
}

// Template does so of a template.
func Template(spec resourceapi.ResourceClaimTemplateSpec, namespace string, i attachment.Isolation) field.ErrorList {
	return validator{namespace, i}.claim(spec.Spec, field.NewPath("spec", "spec"))
}

// Class does so of a class. One with the name of a network's class is that
// network's, by whomever it was made.
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

// validator knows whose claim it is.
type validator struct {
	namespace string
	isolation attachment.Isolation
}

func (v validator) claim(spec resourceapi.ResourceClaimSpec, path *field.Path) field.ErrorList {
	requests := requestsOf(spec)
	devices := path.Child("devices")
	var errs field.ErrorList
	for _, r := range requests {
		errs = append(errs, v.request(r, devices.Child("requests"))...)
	}
	for i, c := range spec.Devices.Config {
		at := devices.Child("config").Index(i).Child("opaque", "parameters")
		config, found, problems := ours(c.DeviceConfiguration, at)
		errs = append(errs, problems...)
		if found && config.Network != nil {
			errs = append(errs, v.network(*config.Network, c.Requests, requests, at.Child("network"))...)
		}
	}
	return errs
}

// request checks one that is for a network by its class.
func (v validator) request(r request, path *field.Path) field.ErrorList {
	network, ofNetwork := attachment.ClassNetwork(r.class)
	if !ofNetwork {
		return nil
	}
	path = path.Index(r.index)
	if r.sub >= 0 {
		path = path.Child("firstAvailable").Index(r.sub)
	} else {
		path = path.Child("exactly")
	}
	var errs field.ErrorList
	if r.adminAccess {
		errs = append(errs, field.Forbidden(path.Child("adminAccess"),
			"a network is attached to a pod, which is not what administrative access is for: remove it"))
	}
	if err := v.isolation.Allow(v.namespace, network); err != nil {
		errs = append(errs, field.Forbidden(path.Child("deviceClassName"), err.Error()))
	}
	return errs
}

// network checks the one that a config names. Requests for classes that are not
// a network's are left to the node, which knows what their devices are.
func (v validator) network(n v1alpha1.NetworkReference, covered []string, requests []request, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	ref := attachment.NetworkRef{Namespace: n.Namespace, Name: n.Name}
	if ref.Namespace == "" {
		ref.Namespace = v.namespace
	}
	if err := v.isolation.Allow(v.namespace, ref); err != nil {
		errs = append(errs, field.Forbidden(path, err.Error()))
	}
	for _, r := range requests {
		if _, ofNetwork := attachment.ClassNetwork(r.class); ofNetwork && covers(covered, r.name) {
			if problems := sameNetwork(n, v.namespace, r.class, path); len(problems) > 0 {
				return append(errs, problems...)
			}
		}
	}
	return errs
}

// covers is the rule of the API: no names are all requests, and a request's name
// is also that of its alternatives.
func covers(names []string, request string) bool {
	parent, _, _ := strings.Cut(request, "/")
	return len(names) == 0 || slices.Contains(names, request) || slices.Contains(names, parent)
}

// sameNetwork compares by the class's name, which cannot always be read back.
func sameNetwork(n v1alpha1.NetworkReference, defaultNamespace, class string, path *field.Path) field.ErrorList {
	ref := attachment.NetworkRef{Namespace: n.Namespace, Name: n.Name}
	if ref.Namespace == "" {
		ref.Namespace = defaultNamespace
	}
	if ref.Namespace == "" {
		return field.ErrorList{field.Required(path.Child("namespace"), fmt.Sprintf("class %s is of a network of one namespace: name it", class))}
	}
	if attachment.DeviceClassName(ref) == class {
		return nil
	}
	return field.ErrorList{field.Invalid(path, ref.String(),
		fmt.Sprintf("is not the network of class %s: use class %s, or leave network out", class, attachment.DeviceClassName(ref)))}
}

// ours decodes the parameters of a config for nadra's driver.
func ours(c resourceapi.DeviceConfiguration, path *field.Path) (config *v1alpha1.AttachmentConfig, found bool, errs field.ErrorList) {
	if c.Opaque == nil || c.Opaque.Driver != v1alpha1.DriverName {
		return nil, false, nil
	}
	config, err := v1alpha1.Decode(c.Opaque.Parameters.Raw)
	if err != nil {
		return nil, false, field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	if errs := config.Validate(path); len(errs) > 0 {
		return nil, false, errs
	}
	return config, true, nil
}

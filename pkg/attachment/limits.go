package attachment

import (
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// maxMessage limits what an error repeats of an annotation, a claim or a configuration, in bytes.
const maxMessage = 1 << 10

// CheckLimits returns an error with the code LimitExceeded if a pod requests too many networks, or too
// many arguments for all of them. Limits of a single network are checked where it is parsed.
func CheckLimits(selections []Selection) error {
	if err := checkCount(len(selections)); err != nil {
		return err
	}
	arguments := 0
	for _, s := range selections {
		if len(s.CNIArgs) > 0 {
			arguments += len(mustJSON(s.CNIArgs))
		}
		if err := v1alpha1.CheckSize("cni-args of the pod's networks", arguments, v1alpha1.MaxArguments, "bytes", "shorten them"); err != nil {
			return err
		}
	}
	return nil
}

// CheckConfigs returns an error with the code LimitExceeded if nadra would have to merge too many bytes of
// configs for the requests of a claim. It decodes none of them.
func CheckConfigs(spec resourceapi.ResourceClaimSpec) error {
	return checkConfigs(spec.Devices.Requests, spec.Devices.Config)
}

// checkConfigs counts each config as often as FromClaim and RequestsOfClaim may merge it.
func checkConfigs(requests []resourceapi.DeviceRequest, configs []resourceapi.DeviceClaimConfiguration) error {
	options, all := map[string]int{}, 0
	for _, r := range requests {
		for _, o := range OptionsOf(r) {
			all++
			options[o.Name]++
			if o.Name != r.Name {
				options[r.Name]++
			}
		}
	}
	bytes := 0
	for _, c := range configs {
		if c.Opaque == nil || c.Opaque.Driver != v1alpha1.DriverName {
			continue
		}
		covered := 0
		for _, name := range c.Requests {
			covered += options[name]
		}
		if len(c.Requests) == 0 {
			covered = all
		}
		bytes += len(c.Opaque.Parameters.Raw) * max(covered, 1)
	}
	return v1alpha1.CheckSize("the claim", bytes, v1alpha1.MaxClaimConfigs, "bytes of parameters for "+v1alpha1.DriverName+", each counted for every request and alternative that it is for",
		"shorten them, or name fewer requests in each")
}

// checkCount returns an error if a pod requests too many networks.
func checkCount(networks int) error {
	return v1alpha1.CheckSize("the pod", networks, v1alpha1.MaxNetworks, "networks", "request fewer networks")
}

// SlimObject reduces a NetworkAttachmentDefinition as Slim does, and leaves other objects alone. It is the
// transform of caches: with thousands of NADs, their managed fields take more memory than their content.
func SlimObject(object any) (any, error) {
	if nad, ok := object.(*nadv1.NetworkAttachmentDefinition); ok {
		Slim(nad)
	}
	return object, nil
}

// Slim reduces a NetworkAttachmentDefinition in a cache to what nadra reads of it. It keeps no more of
// what tenants choose than ParseNetwork needs in order to accept or refuse it.
func Slim(nad *nadv1.NetworkAttachmentDefinition) {
	kept := map[string]string{}
	for _, key := range []string{ResourceNameAnnotation, NodeSelectorAnnotation, AlignAnnotation, DeviceFromAnnotation} {
		if value, found := nad.Annotations[key]; value != "" || found && key == DeviceFromAnnotation {
			kept[key] = v1alpha1.Cut(value, v1alpha1.MaxLabel)
		}
	}
	nad.ManagedFields, nad.Labels, nad.Annotations, nad.OwnerReferences, nad.Finalizers = nil, nil, nil, nil, nil
	if len(kept) > 0 {
		nad.Annotations = kept
	}
	nad.Spec.Config = v1alpha1.Cut(nad.Spec.Config, v1alpha1.MaxNetworkConfig)
}

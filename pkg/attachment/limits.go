package attachment

import (
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

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
	}
	return v1alpha1.CheckSize("cni-args of the pod's networks", arguments, v1alpha1.MaxArguments, "bytes", "shorten them")
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

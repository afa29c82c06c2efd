package attachment

import "github.com/nadra-dev/nadra/pkg/api/v1alpha1"

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

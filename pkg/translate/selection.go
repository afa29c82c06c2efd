package translate

import (
	"slices"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// featureResources is the feature of pods whose limits or requests name the pool of one of their
// networks.
const featureResources = "resources"

// featuresOf returns what a selection requests beyond the network, by the standard's keys. It
// skips unknown keys and empty values.
func featuresOf(s attachment.Selection) []string {
	var out []string
	for _, f := range []struct {
		key  string
		used bool
	}{
		{"interface", s.Interface != ""},
		{"ips", len(s.IPs) > 0},
		{"mac", s.MAC != ""},
		{"infiniband-guid", s.InfinibandGUID != ""},
		{"cni-args", len(s.CNIArgs) > 0},
		{"portMappings", len(s.PortMappings) > 0},
		{"bandwidth", s.Bandwidth != nil},
		{"default-route", s.DefaultRoute != nil},
		{"deviceID", s.DeviceID != ""},
		{"ipam-claim-reference", s.IPAMClaimReference != ""},
	} {
		if f.used {
			out = append(out, f.key)
		}
	}
	return out
}

// sortedSet sorts a list and removes duplicates.
func sortedSet(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

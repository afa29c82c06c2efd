package attachment

import (
	"encoding/json"
	"slices"
)

// Whereabouts is the type of an IPAM plugin whose reconciler frees the addresses of
// running pods without network-status.
const Whereabouts = "whereabouts"

// IPAMTypes returns the types of the IPAM plugins in the attachment's chain. It returns
// none for a configuration that is not valid JSON, whose plugins do not run.
func (a Attachment) IPAMTypes() []string {
	var list struct {
		Plugins []struct {
			IPAM struct {
				Type string `json:"type"`
			} `json:"ipam"`
		} `json:"plugins"`
	}
	if json.Unmarshal(a.Conflist, &list) != nil {
		return nil
	}
	var out []string
	for _, p := range list.Plugins {
		if p.IPAM.Type != "" {
			out = append(out, p.IPAM.Type)
		}
	}
	return out
}

// UsesIPAM reports whether the attachment's chain has an IPAM plugin of this type.
func (a Attachment) UsesIPAM(ipamType string) bool { return slices.Contains(a.IPAMTypes(), ipamType) }

package podedit

import (
	"encoding/json"
	"slices"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// keeps returns why a network is not removed although the annotation does not name it any more, or nil.
func (m *matches) keeps(record int) error {
	r := m.records[record]
	if r.Hardware != nil {
		return reason.Errorf(reason.EditRefused, "removing network %s (%s): it uses device %s of resource pool %s, which the pod's containers have until they end: "+
			"delete the pod, or name the network in the annotation again", r.Attachment.Network, r.Attachment.Interface, r.Hardware.ID, r.Hardware.ResourceName)
	}
	ranges := whereaboutsRanges(r.Attachment)
	for i, other := range m.records {
		if !other.DeviceOnly && !other.Removed && other.Phase == checkpoint.Attached && m.byRecord[i] != none &&
			slices.ContainsFunc(whereaboutsRanges(other.Attachment), func(text string) bool { return slices.Contains(ranges, text) }) {
			return reason.Errorf(reason.EditRefused, "removing network %s (%s): network %s (%s) has an address of the same range, which the DEL of whereabouts may free "+
				"in its place: delete the pod, or name the network in the annotation again",
				r.Attachment.Network, r.Attachment.Interface, other.Attachment.Network, other.Attachment.Interface)
		}
	}
	return nil
}

// whereaboutsRanges returns the ranges of the addresses that whereabouts gives an attachment. Its
// DEL may release by the sandbox alone (v0.8), and so the address of another network of the pod.
func whereaboutsRanges(a attachment.Attachment) (out []string) {
	type ipRange struct {
		Range string `json:"range"`
	}
	var conf struct {
		Plugins []struct {
			IPAM struct {
				Type string `json:"type"`
				ipRange
				Ranges []ipRange `json:"ipRanges"`
			} `json:"ipam"`
		} `json:"plugins"`
	}
	if json.Unmarshal(a.Conflist, &conf) != nil {
		return nil // the plugins report the error
	}
	for _, p := range conf.Plugins {
		if p.IPAM.Type != attachment.Whereabouts {
			continue
		}
		for _, one := range append(p.IPAM.Ranges, p.IPAM.ipRange) {
			if one.Range != "" {
				out = append(out, one.Range)
			}
		}
	}
	return out
}

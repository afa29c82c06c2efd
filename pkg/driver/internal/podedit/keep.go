package podedit

import (
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// keeps returns why a network is not removed although the annotation does not name it any more, or nil.
func (m *matches) keeps(record int) error {
	r := m.records[record]
	if r.Hardware != nil {
		return reason.Errorf(reason.EditRefused, "removing network %s (%s): it uses device %s of resource pool %s, which the pod's containers have until they end: "+
			"delete the pod, or name the network in the annotation again", r.Attachment.Network, r.Attachment.Interface, r.Hardware.ID, r.Hardware.ResourceName)
	}
	for i, other := range m.records {
		if !other.DeviceOnly && !other.Removed && other.Phase == checkpoint.Attached && m.byRecord[i] != none && r.Attachment.MayRelease(other.Attachment) {
			return reason.Errorf(reason.EditRefused, "removing network %s (%s): network %s (%s) has an address of the same range, which the DEL of whereabouts may free "+
				"in its place: delete the pod, or name the network in the annotation again",
				r.Attachment.Network, r.Attachment.Interface, other.Attachment.Network, other.Attachment.Interface)
		}
	}
	return nil
}

package podedit

import (
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// keep finds out why networks are not removed although the annotation does not name them any more.
func (m *matches) keep() {
	held := make([]attachment.Held, len(m.records))
	for i, r := range m.records {
		held[i] = r.Attachment.Held()
	}
	for i := range m.records {
		m.keeps[i] = m.whyKept(i, held)
	}
}

// whyKept returns why a network is not removed, or nil.
func (m *matches) whyKept(record int, held []attachment.Held) error {
	r := m.records[record]
	if r.Hardware != nil {
		return reason.Errorf(reason.EditRefused, "removing network %s (%s): it uses device %s of resource pool %s, which the pod's containers have until they end: "+
			"delete the pod, or name the network in the annotation again", r.Attachment.Network, r.Attachment.Interface, r.Hardware.ID, r.Hardware.ResourceName)
	}
	for i, other := range m.records {
		if !other.DeviceOnly && !other.Removed && other.Phase == checkpoint.Attached && (m.byRecord[i] != none || m.isPinned(i)) && held[record].MayRelease(held[i]) {
			return reason.Errorf(reason.EditRefused, "removing network %s (%s): network %s (%s) has an address of the same range, which the DEL of whereabouts may free "+
				"in its place: delete the pod, or name the network in the annotation again",
				r.Attachment.Network, r.Attachment.Interface, other.Attachment.Network, other.Attachment.Interface)
		}
	}
	return nil
}

package driver

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podedit"
)

// added reports that an edit has added a network.
func (r *reporter) added(record checkpoint.Record) {
	r.events.Pod(record.Pod, corev1.EventTypeNormal, reason.EventAddedInterface, addedMessage(record))
	if record.Unclaimed() {
		r.attachedWithoutClaim(record.Pod, []attachment.Selection{{Network: record.Attachment.Network}})
	}
}

// removed reports that an edit has removed a network.
func (r *reporter) removed(record checkpoint.Record) {
	r.events.Pod(record.Pod, corev1.EventTypeNormal, reason.EventRemovedInterface,
		fmt.Sprintf("Remove %s from %s: the annotation does not name it any more", record.Attachment.Interface, record.Attachment.Network))
}

// editFailed reports what an edit asks for and the pod does not get, or keeps.
func (r *reporter) editFailed(pod attachment.PodRef, removing bool, err error) {
	event := reason.EventFailedAddingInterface
	if removing {
		event = reason.EventFailedRemovingInterface
	}
	r.events.Pod(pod, corev1.EventTypeWarning, event, err.Error())
}

// reportAdded reports the result of adding a network, and returns err.
func (e *podEdits) reportAdded(s liveSandbox, key checkpoint.Key, network attachment.NetworkRef, iface string, err error) error {
	if err != nil {
		e.refuse(s, podedit.Refusal{Network: network, Interface: iface, Err: err})
		return err
	}
	records := e.recordsOf(s.Sandbox)
	if i := slices.IndexFunc(records, func(r checkpoint.Record) bool { return r.Key() == key }); i >= 0 {
		e.report.added(records[i])
	}
	return nil
}

// refuse reports what a pod does not get, or keeps, unless the latest event says the same.
func (e *podEdits) refuse(s liveSandbox, f podedit.Refusal) {
	key := fmt.Sprintf("%t %s %s", f.Removing, f.Network, f.Interface)
	e.mu.Lock()
	before := e.failed[s.Pod.UID][key]
	if e.failed[s.Pod.UID] == nil {
		e.failed[s.Pod.UID] = map[string]string{}
	}
	e.failed[s.Pod.UID][key] = f.Err.Error()
	e.mu.Unlock()
	if before != f.Err.Error() {
		e.report.editFailed(s.Pod, f.Removing, f.Err)
	}
}

// refuseAll reports what a plan refuses.
func (e *podEdits) refuseAll(s liveSandbox, refused []podedit.Refusal) {
	for _, f := range refused {
		e.refuse(s, f)
	}
}

// forgetFailures forgets the failures of a pod whose networks are as its annotation asks.
func (e *podEdits) forgetFailures(s liveSandbox) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.failed, s.Pod.UID)
}

// hostNetworkEdited returns why an edit changes nothing for a pod without a network namespace.
func hostNetworkEdited(s attachment.Sandbox) error {
	return reason.Errorf(reason.HostNetwork, "the networks annotation of pod %s was edited, but the pod uses the host's network, which gets no attachments: "+
		"remove the annotation", s.Pod)
}

// interfaceInUse returns why a network is not added yet.
func interfaceInUse(network attachment.NetworkRef, iface string) error {
	return reason.Errorf(reason.PendingDEL, "adding network %s as %s: the pod still has this interface of a removed network, whose DEL has failed; nadra tries again", network, iface)
}

// editWithoutClaim returns why a namespace's policy keeps a network from being added.
func editWithoutClaim(a podedit.Addition) error {
	return reason.Errorf(reason.NoClaim, "adding network %s as %s: a network that is added to a running pod has no claim, and the policy refuses such networks (%s): "+
		"delete the pod, so that the next one gets a claim for it", a.Selection.Network, a.Interface, unclaimedSetting)
}

// poolEdited returns why a network of a resource pool is not added to a running pod.
func poolEdited(a podedit.Addition, pool string) error {
	return reason.Errorf(reason.EditRefused, "adding network %s as %s: it draws from resource pool %s, whose devices pods get by claims before their containers start: "+
		"delete the pod, so that the next one gets a claim for it", a.Selection.Network, cmp.Or(a.Interface, "an interface"), pool)
}

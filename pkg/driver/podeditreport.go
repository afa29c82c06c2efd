package driver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podedit"
)

// reportAdded reports the result of adding a network, unless the sandbox or the driver ends, and
// returns err.
func (e *podEditor) reportAdded(ctx context.Context, s liveSandbox, key checkpoint.Key, network attachment.NetworkRef, iface string, err error) error {
	if err != nil && isCancelled(context.Cause(ctx)) {
		return err
	}
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
func (e *podEditor) refuse(s liveSandbox, f podedit.Refusal) {
	if e.failures.isNew(s.Pod.UID, f) {
		e.report.editFailed(s.Pod, f.Removing, f.Err)
	}
}

// refuseAll reports what a plan refuses.
func (e *podEditor) refuseAll(s liveSandbox, refused []podedit.Refusal) {
	for _, f := range refused {
		e.refuse(s, f)
	}
}

// editFailures has the latest failures of each pod, so that each has one event.
type editFailures struct {
	mu    sync.Mutex
	byPod map[string]map[string]string
}

// isNew records a failure, and reports whether it differs from the latest one of its network.
func (x *editFailures) isNew(podUID string, f podedit.Refusal) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	key, text := fmt.Sprintf("%t %s %s", f.Removing, f.Network, f.Interface), f.Err.Error()
	if x.byPod[podUID][key] == text {
		return false
	}
	if x.byPod == nil {
		x.byPod = map[string]map[string]string{}
	}
	if x.byPod[podUID] == nil {
		x.byPod[podUID] = map[string]string{}
	}
	x.byPod[podUID][key] = text
	return true
}

// forget forgets the failures of a pod whose networks are as its annotation asks, or that is gone.
func (x *editFailures) forget(podUID string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.byPod, podUID)
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
func editWithoutClaim(a podedit.Addition, policy UnclaimedPolicy) error {
	return reason.Errorf(reason.NoClaim, "adding network %s as %s: a network that is added to a running pod has no claim, and the policy for such networks is %q (%s): "+
		"delete the pod, so that the next one gets a claim for it; or set the policy to %q", a.Selection.Network, a.Interface, policy, unclaimedSetting, AttachUnclaimed)
}

// poolEdited returns why a network of a resource pool is not added to a running pod.
func poolEdited(a podedit.Addition, pool string) error {
	return reason.Errorf(reason.EditRefused, "adding network %s as %s: it draws from resource pool %s, whose devices pods get by claims before their containers start: "+
		"delete the pod, so that the next one gets a claim for it", a.Selection.Network, cmp.Or(a.Interface, "an interface"), pool)
}

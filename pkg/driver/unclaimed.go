package driver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	nri "github.com/containerd/nri/pkg/api"
	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
)

const (
	// configSource is the kubelet's annotation for the source of a pod. sourceAPI is its
	// value for all but static pods.
	configSource = "kubernetes.io/config.source"
	sourceAPI    = "api"
	// maxListed is the number of networks that a message lists.
	maxListed = 3
	// plansAtOnce is the number of pods without a claim that are planned at a time.
	plansAtOnce = 4
)

// unclaimedPods serves, or refuses, pods that name networks by annotation and have no claim:
// static pods, pods with spec.nodeName, and pods that the webhook has not seen.
type unclaimedPods struct {
	*pods
	jobs  *attachJobs
	edits *podEdits
	// turns limits the number of pods whose annotations are planned at a time. Who has a turn waits for no lock, and for no
	// plugin: a pod whose DEL is slow would keep the turn from the others.
	turns *semaphore.Weighted
}

// isStatic reports whether the kubelet has the pod from a file.
func isStatic(pod *nri.PodSandbox) bool {
	source := pod.GetAnnotations()[configSource]
	return source != "" && source != sourceAPI
}

// consider decides what happens to a sandbox of a pod without a claim: it gets the networks of its
// annotation, and is pending until it has their records, or none. It parses nothing. It returns an error
// for a new sandbox while the node's owner is unknown: on a node of nadra's nobody else would attach the
// pod's networks. A static pod, which the API server may need, it leaves to the sweep then, and returns
// false. A sandbox that is pending stays so when the node's owner changes.
func (u *unclaimedPods) consider(s liveSandbox) (pending bool, err error) {
	// The adopter adopts what Multus has attached. Beside Multus, that has every sandbox's default network.
	if !u.concerned(s) || !u.cfg.BesideMultus && u.custody.ofMultus(s.ID) {
		u.edits.started(s)
		return false, nil
	}
	attaches, known := u.owner.attaches()
	switch {
	case known && !attaches && !s.pending:
		u.edits.started(s)
		return false, nil
	case !known && !s.static && !s.late:
		return false, u.ownerUnknown(s.Pod)
	}
	s.pending, s.late = true, s.late || !known
	u.sandboxes.add(s)
	return known || !s.static, nil
}

// concerned reports whether a sandbox is to get networks, or to be refused, on a node of nadra's.
func (u *unclaimedPods) concerned(s liveSandbox) bool {
	return u.owner.concerned(s, u.policies.of(s.Pod.Namespace))
}

// live returns what is known of a sandbox. It decides about one of which no hook has heard: CRI-O makes
// sandboxes while it synchronises a plugin.
func (u *unclaimedPods) live(s liveSandbox) (liveSandbox, error) {
	if known, found := u.sandboxes.of(s.Pod.UID); found && known.ID == s.ID {
		return known, nil
	}
	s.late = true
	pending, err := u.consider(s)
	s.pending = pending
	return s, err
}

// ownerUnknown returns, and reports, why a sandbox must not be made before the Node was read.
func (u *unclaimedPods) ownerUnknown(pod attachment.PodRef) error {
	err := reason.Errorf(reason.OwnerUnknown, "pod %s names networks by annotation and has no claim, and the driver has not read yet whether node %s is nadra's: "+
		"check that it reaches the API server, and may list and watch nodes", pod, u.owner.node)
	u.events.Pod(pod, corev1.EventTypeWarning, reason.EventFailedPrepareNetwork, err.Error())
	return err
}

// attach returns the job that prepares and attaches a pending sandbox. It starts one if there is none.
func (u *unclaimedPods) attach(s liveSandbox, watched bool) *job {
	return u.jobs.attach(s.Sandbox, func(ctx context.Context) error { return u.prepare(ctx, s) }, watched)
}

// attachPending attaches the sandboxes that are still pending, except those that have just failed.
func (u *unclaimedPods) attachPending() {
	for _, s := range u.sandboxes.all() {
		if j := u.jobs.of(s.Sandbox); s.pending && (j == nil || !j.running() && !j.fresh()) {
			u.attach(s, false)
		}
	}
}

// onlyDevices reports whether the records of a pod leave open what it gets by its annotation: there is none of a network.
func onlyDevices(records []checkpoint.Record) bool {
	return all(records, func(r checkpoint.Record) bool { return r.DeviceOnly })
}

// hasOnlyDevices reports whether a sandbox is in the host's network, and its pod has devices and no networks.
func (n *node) hasOnlyDevices(s attachment.Sandbox) bool {
	records := n.store.ForPod(s.Pod.UID)
	return s.NetNS == "" && !s.Unspecified && len(records) > 0 && onlyDevices(records)
}

// reconsider decides again about the running sandboxes of pods without networks, after the node's owner has changed.
func (u *unclaimedPods) reconsider() {
	for _, s := range u.sandboxes.all() {
		if !s.pending && onlyDevices(u.store.ForPod(s.Pod.UID)) {
			s.late = true
			_, _ = u.consider(s) // CreateContainer refuses
		}
	}
	u.attachPending()
}

// prepare records the attachments of a pending sandbox, or reports on the pod why it cannot. It is
// no part of a hook: a pod's author decides how long it takes. A sandbox whose hook has left it to nadra gets its networks
// even if the node has another owner by now, because no one else attaches it.
func (u *unclaimedPods) prepare(ctx context.Context, s liveSandbox) error {
	if attaches, known := u.owner.attaches(); !known {
		return u.ownerUnknown(s.Pod)
	} else if (attaches || !s.late) && u.concerned(s) {
		if s.late && u.watch.Find(s.Pod) == nil && !cache.WaitForCacheSync(ctx.Done(), u.watch.informer.HasSynced) {
			return context.Cause(ctx)
		}
		if err := u.plan(ctx, s); err != nil {
			return err
		}
	}
	u.edits.started(s)
	return nil
}

// plan plans and records the attachments of a sandbox. It leaves a running sandbox alone whose networks
// another program has attached.
func (u *unclaimedPods) plan(ctx context.Context, s liveSandbox) error {
	text := ptr.Deref(s.Networks, "")
	if s.late {
		known := u.watch.Find(s.Pod)
		if known == nil || known.DeletionTimestamp != nil {
			return reason.Errorf(reason.PodNotRead, "pod %s is not known to the API server, or is being deleted", s.Pod)
		}
		text = u.cfg.networksText(known.Annotations)
	}
	if err := u.turns.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	networks, err := u.owner.unclaimedNetworks(s, text, u.policies.of(s.Pod.Namespace))
	u.turns.Release(1)
	if err != nil {
		u.cfg.Metrics.UnclaimedRefused()
		u.events.Pod(s.Pod, corev1.EventTypeWarning, reason.EventFailedNoClaim, err.Error())
		return err
	}
	if s.late && u.isServed(s.Sandbox, networks) {
		return nil
	}
	if err = u.record(ctx, s.Sandbox, networks, s.static); err != nil && !isCancelled(err) {
		err = fmt.Errorf("preparing the networks of pod %s, which has no claim: %w", s.Pod, err)
		klog.FromContext(ctx).Error(err, "A pod without a claim has no networks", "sandbox", s.ID)
		u.events.Pod(s.Pod, corev1.EventTypeWarning, reason.EventFailedPrepareNetwork, err.Error())
	}
	return err
}

// record plans the attachments of a sandbox and writes their records. What the pod had in an
// earlier sandbox is deleted first. Records of this sandbox stay as they are.
func (u *unclaimedPods) record(ctx context.Context, sandbox attachment.Sandbox, networks []attachment.Selection, static bool) error {
	return u.operations.Do(ctx, attaching(sandbox.Pod, operations.AttachTime), func(ctx context.Context) error { return u.recordLocked(ctx, sandbox, networks, static) })
}

// recordLocked does so while no other operation on the pod runs.
func (u *unclaimedPods) recordLocked(ctx context.Context, sandbox attachment.Sandbox, networks []attachment.Selection, static bool) error {
	if err := u.clearEarlier(ctx, sandbox); err != nil {
		return err
	}
	if err := u.turns.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	plan, err := u.planner.planUnclaimed(ctx, sandbox.Pod, networks, static)
	u.turns.Release(1)
	if err != nil {
		return err
	}
	if ctx.Err() != nil { // the sandbox may have ended meanwhile
		return context.Cause(ctx)
	}
	ns, err := u.attacher.Netns.Inspect(sandbox.NetNS)
	if err != nil {
		return err
	}
	sandbox.Cookie = ns.Cookie
	u.taking.Lock()
	defer u.taking.Unlock()
	if err := deviceHeld(plan, u.store.Holders); err != nil {
		return err
	}
	return u.store.PutUnclaimed(plan, sandbox)
}

// isServed reports whether a sandbox has an interface of the networks already. The pod's
// network-status does not decide: after a reboot it still describes the pod's earlier sandbox.
func (u *unclaimedPods) isServed(sandbox attachment.Sandbox, networks []attachment.Selection) bool {
	names, err := attachment.InterfaceNames(networks)
	if err != nil {
		return false // record reports the error
	}
	ns, err := u.attacher.Netns.Inspect(sandbox.NetNS)
	return err == nil && slices.ContainsFunc(names, func(name string) bool { return slices.Contains(ns.Links, name) })
}

// concerned reports whether a sandbox of a pod without a claim is to get networks, or to be refused, on
// a node of nadra's. Nothing is attached to the host's network, and a sandbox that has begun is not refused.
func (w *owner) concerned(s liveSandbox, policy UnclaimedPolicy) bool {
	return strings.TrimSpace(ptr.Deref(s.Networks, "")) != "" && s.NetNS != "" && policy != AllowUnclaimed && !w.exempts(s.Pod.String()) &&
		(!s.begun || policy != RefuseUnclaimed)
}

// unclaimedNetworks returns the networks that a pod without a claim gets by its annotation's text on a
// node of nadra's, or why a new sandbox of it must not be made.
func (w *owner) unclaimedNetworks(s liveSandbox, text string, policy UnclaimedPolicy) ([]attachment.Selection, error) {
	networks, err := attachment.ParseSelections(text, s.Pod.Namespace)
	if err != nil {
		return nil, reason.Errorf(reason.NoClaim, "pod %s has no claim, and its annotation %s cannot be read, on node %s, "+
			"whose networks nadra attaches (%s): %w", s.Pod, s.annotation, w.node, w.describe(), err)
	}
	if len(networks) == 0 || policy == AttachUnclaimed {
		return networks, nil
	}
	return nil, reason.Errorf(reason.NoClaim, "pod %s names %s by annotation %s but has no claim, and node %s is nadra's (%s), which refuses such pods (%s): "+
		"the pod would run without them. %s; or except it with nadra-node's --exempt-pods",
		s.Pod, listed(networks), s.annotation, w.node, w.describe(), unclaimedSetting, remedy(s.static, w.Ownership))
}

// unclaimedSetting names what decides about pods without a claim.
const unclaimedSetting = "--unclaimed, or the namespace's label " + v1alpha1.UnclaimedLabel

// remedy returns what the pod's owner can do.
func remedy(static bool, o Ownership) string {
	if static {
		return "A static pod cannot have claims: make it a DaemonSet; or remove the annotation"
	}
	out := "nadra's webhook has not seen it, has seen it without the annotation, or has left it to Multus: delete it, so that the next one gets a claim; " +
		reason.LateAnnotation + "; or convert its manifest (kubectl nadra convert)"
	if o.Label != "" {
		out += "; or keep it on nodes without the label"
	}
	return out
}

// listed returns the names of networks for a message.
func listed(networks []attachment.Selection) string {
	var out []string
	for _, n := range networks {
		out = append(out, n.Network.String())
	}
	out = words.ShortList(out, maxListed)
	if len(out) == 1 {
		return "network " + out[0]
	}
	return "networks " + strings.Join(out[:len(out)-1], ", ") + " and " + out[len(out)-1]
}

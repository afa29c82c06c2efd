package driver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	nri "github.com/containerd/nri/pkg/api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/events"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podlog"
)

const (
	// configSource is the kubelet's annotation for the source of a pod. sourceAPI is its
	// value for all but static pods.
	configSource = "kubernetes.io/config.source"
	sourceAPI    = "api"
	// maxListed is the number of networks that a message lists.
	maxListed = 3
)

// unclaimedPods serves, or refuses, pods that name networks by annotation and have no claim:
// static pods, pods with spec.nodeName, and pods that the webhook has not seen.
type unclaimedPods struct {
	owner    *owner
	policies *namespacePolicies
	// ofMultus reports whether Multus has attached a sandbox, which the adopter adopts.
	ofMultus   func(sandboxID string) bool
	store      *checkpoint.Store
	attacher   *attach.Attacher
	planner    *planner
	locks      *podLocks
	jobs       *attachJobs
	watch      *podWatch
	operations *background.Group
	sandboxes  sandboxReader
	events     *events.Recorder
	metrics    *metrics.Node
}

// isStatic reports whether the kubelet has the pod from a file.
func isStatic(pod *nri.PodSandbox) bool {
	source := pod.GetAnnotations()[configSource]
	return source != "" && source != sourceAPI
}

// prepare records the attachments of a new sandbox of a pod without a claim, if the pod is to
// have them, and reports whether it has recorded any. It returns an error if the sandbox must
// not be made: on a node of nadra's nobody else would attach the pod's networks, and it would
// start without them. It sends no request, and queues the pod's event.
func (u *unclaimedPods) prepare(ctx context.Context, pod *nri.PodSandbox) (prepared bool, err error) {
	if !u.owner.attaches() || u.ofMultus(pod.GetId()) {
		return false, nil
	}
	sandbox := u.sandboxes.of(pod)
	networks, err := u.networksOf(pod, sandbox)
	if err != nil {
		u.metrics.UnclaimedRefused()
		u.events.Pod(sandbox.Pod, corev1.EventTypeWarning, reason.EventFailedNoClaim, err.Error())
		return false, err
	}
	if len(networks) == 0 {
		return false, nil
	}
	if err := u.record(ctx, sandbox, networks, isStatic(pod)); err != nil {
		err = fmt.Errorf("preparing the networks of pod %s, which has no claim: %w", sandbox.Pod, err)
		u.events.Pod(sandbox.Pod, corev1.EventTypeWarning, reason.EventFailedPrepareNetwork, err.Error())
		return false, err
	}
	return true, nil
}

// networksOf returns the networks that a pod without a claim gets if this node is nadra's, or why
// a new sandbox of it must not be made.
func (u *unclaimedPods) networksOf(pod *nri.PodSandbox, sandbox attachment.Sandbox) ([]attachment.Selection, error) {
	return u.owner.unclaimedNetworks(pod, sandbox, u.policies.of(sandbox.Pod.Namespace, u.owner.Unclaimed))
}

// record plans the attachments of a sandbox and writes their records. What the pod had in an
// earlier sandbox is deleted first. Records of this sandbox stay as they are.
func (u *unclaimedPods) record(ctx context.Context, sandbox attachment.Sandbox, networks []attachment.Selection, static bool) error {
	unlock, err := u.locks.lock(ctx, sandbox.Pod.UID)
	if err != nil {
		return err
	}
	defer unlock()
	if err := clearEarlier(ctx, u.store, u.attacher, sandbox); err != nil {
		return err
	}
	plan, err := u.planner.planUnclaimed(ctx, sandbox.Pod, networks, static)
	if err != nil {
		return err
	}
	if err := deviceHeld(plan, u.store.All(), u.store.PendingDELs()); err != nil {
		return err
	}
	ns, err := u.attacher.Netns.Inspect(sandbox.NetNS)
	if err != nil {
		return err
	}
	sandbox.Cookie = ns.Cookie
	return u.store.PutUnclaimed(plan, sandbox)
}

// attachLate attaches a sandbox of a pod without a claim that was started while the driver was
// not connected: nothing held its containers. It calls known when the pod has its records, or is
// to have none.
func (u *unclaimedPods) attachLate(pod *nri.PodSandbox, sandbox attachment.Sandbox, known func()) {
	networks, err := u.networksOf(pod, sandbox)
	if err != nil || len(networks) == 0 || !u.owner.attaches() || u.ofMultus(sandbox.ID) {
		known()
		return
	}
	u.operations.Go(func(ctx context.Context) {
		defer known()
		ctx = podlog.WithPod(ctx, sandbox.Pod)
		if cache.WaitForCacheSync(ctx.Done(), u.watch.informer.HasSynced) {
			u.attachUnserved(ctx, sandbox, networks, isStatic(pod))
		}
	})
}

// attachUnserved attaches a sandbox that runs. It leaves a sandbox alone whose networks another program
// has attached.
func (u *unclaimedPods) attachUnserved(ctx context.Context, sandbox attachment.Sandbox, networks []attachment.Selection, static bool) {
	known := u.watch.Find(sandbox.Pod)
	if known == nil || known.DeletionTimestamp != nil || u.isServed(sandbox, networks) {
		return
	}
	klog.FromContext(ctx).Info("Attaching a pod without a claim that was started while the driver was not connected", "sandbox", sandbox.ID)
	if err := u.record(ctx, sandbox, networks, static); err != nil {
		err = fmt.Errorf("preparing the networks of pod %s, which has no claim and runs without them: %w", sandbox.Pod, err)
		klog.FromContext(ctx).Error(err, "A pod without a claim has no networks", "sandbox", sandbox.ID)
		u.events.Pod(sandbox.Pod, corev1.EventTypeWarning, reason.EventFailedPrepareNetwork, err.Error())
		return
	}
	u.jobs.attach(sandbox, false)
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

// unclaimedNetworks returns the networks that a pod without a claim gets by its annotation on a
// node of nadra's, or why a new sandbox of it must not be made.
func (w *owner) unclaimedNetworks(pod *nri.PodSandbox, sandbox attachment.Sandbox, policy UnclaimedPolicy) ([]attachment.Selection, error) {
	text := ptr.Deref(sandbox.Networks, "")
	name := sandbox.Pod.String()
	// Nothing is attached to the host's network.
	if strings.TrimSpace(text) == "" || sandbox.NetNS == "" || policy == AllowUnclaimed || w.exempts(name) {
		return nil, nil
	}
	networks, err := attachment.ParseSelections(text, sandbox.Pod.Namespace)
	if err != nil {
		return nil, reason.Errorf(reason.NoClaim, "pod %s has no claim, and its annotation %s cannot be read, on node %s, "+
			"whose networks nadra attaches (%s): %w", name, attachment.NetworksKey(pod.GetAnnotations()), w.node, w.describe(), err)
	}
	if len(networks) == 0 || policy == AttachUnclaimed {
		return networks, nil
	}
	return nil, reason.Errorf(reason.NoClaim, "pod %s names %s by annotation %s but has no claim, and node %s is nadra's (%s), which refuses such pods (%s): "+
		"the pod would run without them. %s; or except it with nadra-node's --exempt-pods",
		name, listed(networks), attachment.NetworksKey(pod.GetAnnotations()), w.node, w.describe(), unclaimedSetting, remedy(pod, w.Ownership))
}

// unclaimedSetting names what decides about pods without a claim.
const unclaimedSetting = "--unclaimed, or the namespace's label " + v1alpha1.UnclaimedLabel

// remedy returns what the pod's owner can do.
func remedy(pod *nri.PodSandbox, o Ownership) string {
	if isStatic(pod) {
		return "A static pod cannot have claims: make it a DaemonSet; or remove the annotation"
	}
	out := "nadra's webhook has not seen it, or has left it to Multus: delete it, so that the next one gets a claim; " +
		"or convert its manifest (kubectl nadra convert)"
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
	if len(out) > maxListed {
		out = append(out[:maxListed], fmt.Sprintf("%d more", len(out)-maxListed))
	}
	if len(out) == 1 {
		return "network " + out[0]
	}
	return "networks " + strings.Join(out[:len(out)-1], ", ") + " and " + out[len(out)-1]
}

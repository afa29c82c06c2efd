package driver

import (
	"context"
	"fmt"
	"slices"
	"time"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/cdi"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
)

// CreateContainer refuses a container whose pod lacks an attachment in this very sandbox, or
// whose network-status is late, unless the gate is to hold it: the pod is being attached and
// nothing has failed yet, or the status has just been sent. After a refusal here the kubelet
// asks again every 11–15 s, also for pods that are never restarted, and at once when the networks
// are attached. A request after a failure begins another attempt, and uses its success. For pods that are
// never restarted a refusal by the gate is final, so their containers do not reach it before
// all is there: CreateContainer waits for that as long as a hook may, and then refuses. A
// container that lacks the gate for one of the awaited networks gets it here.
func (h *hooks) CreateContainer(ctx context.Context, pod *nri.PodSandbox, container *nri.Container) (*nri.ContainerAdjustment, []*nri.ContainerUpdate, error) {
	defer h.done(metrics.CreateContainer, time.Now())
	defer failpoint.Soon(failpoint.AfterContainerCreate)
	defer failpoint.Reach(failpoint.BeforeContainerCreate)
	s := h.liveOf(pod)
	gated := cdi.GatedClaims(container.GetHooks().GetCreateRuntime())
	moved, err := h.preparer.hasMoved(s, gated)
	if err != nil || !moved && len(h.store.ForPod(s.Pod.UID)) == 0 && h.cfg.networksText(pod.GetAnnotations()) == "" {
		return nil, nil, err
	}
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	outcome, err := metrics.Refused, h.recorded(ctx, s, gated)
	if err == nil && len(h.store.ForPod(s.Pod.UID)) == 0 {
		h.sandboxes.begin(s.Pod.UID, s.ID)
		return nil, nil, nil
	}
	if err == nil {
		outcome, err = h.admit(ctx, s.Sandbox, container)
	}
	h.cfg.Metrics.Gate(outcome, 1)
	if err != nil {
		h.retryWhenAttached(s.Sandbox)
		return nil, nil, err
	}
	h.sandboxes.begin(s.Pod.UID, s.ID)
	return h.withGate(container, s.Sandbox), nil, nil
}

// recorded returns an error unless the records of the pod decide about its containers: they are being
// written, or those of a pod without a claim, or of claims that have moved to it, could not be. It has them
// written again.
func (h *hooks) recorded(ctx context.Context, s liveSandbox, gated []string) error {
	for begun := false; ; begun = true {
		if j := h.jobs.of(s.Sandbox); j != nil {
			received(ctx, h, j.prepared)
			if j.running() && !j.isRecorded() {
				return fmt.Errorf("the networks of pod %s are being prepared: %w", s.Pod, j.why())
			}
		}
		lacks, begin, err := h.lacks(s, gated)
		if err != nil || begin == nil {
			return err
		}
		if j := h.jobs.attempt(s.Sandbox, begin); begun || !j.running() {
			return fmt.Errorf("pod %s, %s in sandbox %.12s: %w", s.Pod, lacks, s.ID, j.why())
		}
	}
}

// lacks returns what a pod lacks whose records do not decide about its containers, and what begins to write
// them, which is nil if they do.
func (h *hooks) lacks(s liveSandbox, gated []string) (what string, begin func() *job, err error) {
	if moved, err := h.preparer.hasMoved(s, gated); err != nil {
		return "", nil, err
	} else if moved {
		return "whose claims were another pod's, lacks their networks", func() *job { return h.takeClaims(s, false) }, nil
	}
	if slices.ContainsFunc(h.store.ForPod(s.Pod.UID), func(r checkpoint.Record) bool { return !r.DeviceOnly && !r.Unclaimed() }) {
		return "", nil, nil
	}
	live, err := h.unclaimed.live(s)
	if err != nil || !live.pending {
		return "", nil, err
	}
	if _, known := h.owner.attaches(); live.static && !known {
		return "", nil, nil // the API server may need it
	}
	return "which has no claim, lacks the networks of its annotation", func() *job { return h.unclaimed.attach(live, false) }, nil
}

// withGate returns the change of a container that brings the gate for the awaited networks for which it
// has none, or nil. A CDI device brings that for the claims that a container references. An ephemeral
// container references none.
func (h *hooks) withGate(container *nri.Container, sandbox attachment.Sandbox) *nri.ContainerAdjustment {
	ofPod := h.store.ForPod(sandbox.Pod.UID)
	lacking := ungated(container, ofPod, sandbox.ID)
	if len(lacking) == 0 || failpoint.Off(failpoint.Gate) {
		return nil
	}
	adjust := &nri.ContainerAdjustment{}
	adjust.AddHooks(&nri.Hooks{CreateRuntime: []*nri.Hook{h.cdi.ContainerGate(lacking, ofPod)}})
	return adjust
}

// ungated returns the UIDs of the files with awaited records of which no gate of a container knows.
func ungated(container *nri.Container, ofPod []checkpoint.Record, sandboxID string) (lacking []string) {
	gated := cdi.GatedClaims(container.GetHooks().GetCreateRuntime())
	for _, r := range ofPod {
		if uid := r.FileUID(); r.Awaited(sandboxID) && !slices.Contains(gated, uid) && !slices.Contains(lacking, uid) {
			lacking = append(lacking, uid)
		}
	}
	return lacking
}

// quickTry is the age of a pod's attach up to which CreateContainer waits for the first try if the gate may hold the
// container. Most that fail do so sooner, and the container usually comes when half of the time is over.
const quickTry = 300 * time.Millisecond

// admit decides about a new container by the records of its pod. It returns an error if the container
// is refused. If the pod's networks are being attached, it waits for the first try.
func (h *hooks) admit(ctx context.Context, sandbox attachment.Sandbox, container *nri.Container) (metrics.Outcome, error) {
	missing := h.attacher.Missing(sandbox)
	j := h.jobs.of(sandbox)
	if sandbox.NetNS != "" && slices.ContainsFunc(h.store.ForPod(sandbox.Pod.UID), missing) {
		j = h.jobs.attempt(sandbox, func() *job { return h.jobs.attach(sandbox, nil, false) })
	}
	// Nothing restarts an ephemeral container. It has no claim, and so lacks the gate for the pod's.
	mayHold := h.gateMayHold(sandbox.Pod) && !slices.ContainsFunc(ungated(container, h.store.ForPod(sandbox.Pod.UID), sandbox.ID),
		func(uid string) bool { return uid != sandbox.Pod.UID })
	leave := mayHold && (j == nil || !h.jobs.doubtful(j)) // to the gate
	h.awaitTry(ctx, sandbox.Pod, j, leave)
	if leave && j != nil && j.hold() {
		return metrics.Held, nil
	}
	records := h.store.ForPod(sandbox.Pod.UID)
	if i := slices.IndexFunc(records, missing); i >= 0 {
		if sandbox.NetNS == "" && (j == nil || !j.running()) {
			return metrics.Refused, notAttachedError(records[i], sandbox, attach.NoNamespaceError(sandbox, checkpoint.Networks(records)))
		}
		return metrics.Refused, notAttachedError(records[i], sandbox, j.why())
	}
	if !slices.ContainsFunc(records, networkstatus.Missing) {
		return metrics.Passed, nil
	}
	status, found := h.networkStatus.Pending(sandbox.Pod)
	waited := time.Since(status.Since)
	switch {
	case mayHold && (!found || waited < networkstatus.Late):
		return metrics.Held, nil
	case !found:
		return metrics.Refused, reason.Errorf(reason.AttachRunning, "pod %s is attached again: its network-status could not be stored in time", sandbox.Pod)
	}
	return metrics.Refused, statusError(sandbox.Pod, waited, status.Err)
}

// awaitTry waits until the first try of a job has ended, for a short time if the gate may hold the container after it, and
// not at all if the networks were attached later than that the last time. If the gate may not, it then waits until the API
// server has stored the pod's network-status, as long as a hook may. j is nil if nothing attaches the pod.
func (h *hooks) awaitTry(ctx context.Context, pod attachment.PodRef, j *job, mayHold bool) {
	if mayHold && j != nil {
		if !h.jobs.isQuick(pod) {
			return
		}
		short, cancel := context.WithDeadline(ctx, j.begun.Add(quickTry))
		defer cancel()
		ctx = short
	}
	if j != nil {
		received(ctx, h, j.tried)
	}
	if status, found := h.networkStatus.Pending(pod); found && !mayHold && slices.ContainsFunc(h.store.ForPod(pod.UID), networkstatus.Missing) {
		received(ctx, h, status.Stored)
	}
}

// retryWhenAttached makes the kubelet retry a pod whose container was refused as soon as the pod is
// attached and its network-status stored. Otherwise the kubelet waits for some seconds more.
func (h *hooks) retryWhenAttached(sandbox attachment.Sandbox) {
	j := h.jobs.of(sandbox)
	h.retrigger.when(sandbox.Pod, func(ctx context.Context) bool {
		if j != nil {
			background.Await(ctx, j.done)
		}
		if status, found := h.networkStatus.Pending(sandbox.Pod); found && slices.ContainsFunc(h.store.ForPod(sandbox.Pod.UID), networkstatus.Missing) {
			background.Await(ctx, status.Stored)
		}
		records := h.store.ForPod(sandbox.Pod.UID)
		return len(records) > 0 && !slices.ContainsFunc(records, h.attacher.Missing(sandbox)) && !slices.ContainsFunc(records, networkstatus.Missing)
	})
}

// statusError returns the error for a pod whose network-status is not stored.
func statusError(pod attachment.PodRef, waited time.Duration, cause error) error {
	err := fmt.Errorf("pod %s has its networks, but the API server has not stored its network-status for %s; nadra tries again",
		pod, waited.Round(100*time.Millisecond))
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return reason.Wrap(reason.StatusNotStored, err)
}

// notAttachedError returns the error for a pod that lacks an attachment in a sandbox.
func notAttachedError(r checkpoint.Record, sandbox attachment.Sandbox, cause error) error {
	return fmt.Errorf("pod %s is not attached to network %s (%s) in sandbox %.12s, phase %s: %w",
		sandbox.Pod, r.Attachment.Network, r.Attachment.Interface, sandbox.ID, r.Phase, cause)
}

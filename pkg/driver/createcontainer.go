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
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
)

// CreateContainer refuses a container whose pod lacks an attachment in this very sandbox, or
// whose network-status is late, unless the gate is to hold it: the pod is being attached and
// nothing has failed yet, or the status has just been sent. After a refusal here the kubelet
// asks again every 11–15 s, also for pods that are never restarted. For those a refusal by the
// gate is final, so their containers do not reach it before all is there: CreateContainer
// waits for that, for the hook's budget, and then refuses. A container of a pod without a claim
// gets the gate here.
func (h *hooks) CreateContainer(ctx context.Context, pod *nri.PodSandbox, _ *nri.Container) (*nri.ContainerAdjustment, []*nri.ContainerUpdate, error) {
	defer failpoint.Soon(failpoint.AfterContainerCreate)
	defer failpoint.Reach(failpoint.BeforeContainerCreate)
	records := h.store.ForPod(pod.GetUid())
	if len(records) == 0 {
		return nil, nil, nil
	}
	sandbox := h.sandboxes.of(pod)
	outcome, err := h.admit(ctx, sandbox)
	h.metrics.Gate(outcome, 1)
	if err != nil {
		return nil, nil, err
	}
	return h.withGate(records, sandbox), nil, nil
}

// withGate returns the change of a container that brings the gate for attachments without a claim,
// or nil if it waits for none. A CDI device brings the gate for those of claims.
func (h *hooks) withGate(ofPod []checkpoint.Record, sandbox attachment.Sandbox) *nri.ContainerAdjustment {
	waiting := slices.DeleteFunc(slices.Clone(ofPod), func(r checkpoint.Record) bool { return !r.Unclaimed() || !r.Awaited(sandbox.ID) })
	if len(waiting) == 0 || failpoint.Off(failpoint.Gate) {
		return nil
	}
	adjust := &nri.ContainerAdjustment{}
	adjust.AddHooks(&nri.Hooks{CreateRuntime: []*nri.Hook{h.gate(waiting)}})
	return adjust
}

// admit decides about a new container in a sandbox of a pod with claims. It returns an error if
// the container is refused.
func (h *hooks) admit(ctx context.Context, sandbox attachment.Sandbox) (metrics.Outcome, error) {
	j, restarts := h.jobs.of(sandbox), h.watch.restarts(sandbox.Pod)
	if !restarts {
		h.awaitStatus(ctx, sandbox.Pod, j)
	} else if j != nil && j.hold() {
		return metrics.Held, nil
	}
	records := h.store.ForPod(sandbox.Pod.UID)
	if i := slices.IndexFunc(records, h.attacher.Missing(sandbox)); i >= 0 {
		return metrics.Refused, notAttachedError(records[i], sandbox, h.notAttached(sandbox, j, records))
	}
	if !slices.ContainsFunc(records, networkstatus.Missing) {
		return metrics.Passed, nil
	}
	status, found := h.networkStatus.Pending(sandbox.Pod)
	waited := time.Since(status.Since)
	switch {
	case restarts && (!found || waited < networkstatus.Late):
		return metrics.Held, nil
	case !found:
		return metrics.Refused, reason.Errorf(reason.AttachRunning, "pod %s/%s is attached again: its network-status could not be stored in time",
			sandbox.Pod.Namespace, sandbox.Pod.Name)
	}
	return metrics.Refused, statusError(sandbox.Pod, waited, status.Err)
}

// awaitStatus waits until the first try of a job has ended, and then until the API server has
// stored the pod's network-status, for the hook's budget at most. j is nil if nothing attaches
// the pod.
func (h *hooks) awaitStatus(ctx context.Context, pod attachment.PodRef, j *job) {
	ctx, end := context.WithTimeout(ctx, h.budget())
	defer end()
	if j != nil {
		select {
		case <-j.tried:
		case <-ctx.Done():
		}
	}
	if !slices.ContainsFunc(h.store.ForPod(pod.UID), networkstatus.Missing) {
		return
	}
	if status, found := h.networkStatus.Pending(pod); found {
		select {
		case <-status.Stored:
		case <-ctx.Done():
		}
	}
}

// statusError returns the error for a pod whose network-status is not stored.
func statusError(pod attachment.PodRef, waited time.Duration, cause error) error {
	err := fmt.Errorf("pod %s/%s has its networks, but the API server has not stored its network-status for %s; nadra tries again",
		pod.Namespace, pod.Name, waited.Round(100*time.Millisecond))
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return reason.Wrap(reason.StatusNotStored, err)
}

// notAttached returns why a sandbox is not attached. After a final failure it attaches the
// sandbox again: if the cause is repaired, nobody needs to delete the pod.
func (h *hooks) notAttached(sandbox attachment.Sandbox, j *job, records []checkpoint.Record) error {
	ended, cause := time.Time{}, errNotBegun
	if j != nil {
		ended, cause = j.failure()
	}
	if j != nil && j.running() {
		if cause == nil {
			return reason.Errorf(reason.AttachRunning, "its plugins are running, for %s at most", j.limit)
		}
		return reason.Errorf(reason.AttachRunning, "it is being tried again after: %w", cause)
	}
	if sandbox.NetNS == "" {
		return attach.NoNamespaceError(sandbox, checkpoint.Networks(records))
	}
	if time.Since(ended) > freshFailure {
		h.jobs.attach(sandbox, false)
	}
	return cause
}

// notAttachedError returns the error for a pod that lacks an attachment in a sandbox.
func notAttachedError(r checkpoint.Record, sandbox attachment.Sandbox, cause error) error {
	return fmt.Errorf("pod %s/%s is not attached to network %s (%s) in sandbox %.12s, phase %s: %w",
		sandbox.Pod.Namespace, sandbox.Pod.Name, r.Attachment.Network, r.Attachment.Interface, sandbox.ID, r.Phase, cause)
}

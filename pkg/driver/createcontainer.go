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
	"github.com/nadra-dev/nadra/pkg/driver/internal/cdi"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
)

// CreateContainer refuses a container whose pod lacks an attachment in this very sandbox, or
// whose network-status is late, unless the gate is to hold it: the pod is being attached and
// nothing has failed yet, or the status has just been sent. After a refusal here the kubelet
// asks again every 11–15 s, also for pods that are never restarted, for which a refusal by the
// gate is final.
func (h *hooks) CreateContainer(ctx context.Context, pod *nri.PodSandbox, _ *nri.Container) (*nri.ContainerAdjustment, []*nri.ContainerUpdate, error) {
	defer failpoint.Soon(failpoint.AfterContainerCreate)
	defer failpoint.Reach(failpoint.BeforeContainerCreate)
	records := h.store.ForPod(pod.GetUid())
	if len(records) == 0 {
		return nil, nil, nil
	}
	sandbox := sandboxOf(pod, h.isHost)
	outcome := metrics.Held
	if j := h.jobs.of(sandbox); j == nil || !h.outlasts(j) || !j.hold() {
		records = h.store.ForPod(sandbox.Pod.UID)
		if i := slices.IndexFunc(records, h.attacher.Missing(sandbox)); i >= 0 {
			h.metrics.Gate(metrics.Refused, 1)
			return nil, nil, notAttachedError(records[i], sandbox, h.notAttached(sandbox, j, records))
		}
		stored, err := h.awaitNetworkStatus(ctx, sandbox, records)
		if err != nil {
			h.metrics.Gate(metrics.Refused, 1)
			return nil, nil, err
		}
		if stored {
			outcome = metrics.Passed
		}
	}
	h.metrics.Gate(outcome, 1)
	return nil, nil, nil
}

// outlasts reports whether the gate may hold a container for a job: the gate waits as long as
// the job may take, or the kubelet restarts what the gate fails.
func (h *hooks) outlasts(j *job) bool {
	return j.limit < cdi.GateWait || h.watch.restarts(j.sandbox.Pod)
}

// awaitNetworkStatus reports whether the network-status of an attached pod is stored. It returns
// an error if the status is late. For a pod that restarts no container it waits for the hook's
// budget before it returns an error: a refusal by the gate would be final.
func (h *hooks) awaitNetworkStatus(ctx context.Context, sandbox attachment.Sandbox, records []checkpoint.Record) (stored bool, err error) {
	if !slices.ContainsFunc(records, networkstatus.Missing) {
		return true, nil
	}
	status, found := h.networkStatus.Pending(sandbox.Pod)
	if !found { // it is to be attached again
		return false, nil
	}
	waited := time.Since(status.Since)
	if h.watch.restarts(sandbox.Pod) {
		if waited < networkstatus.Late {
			return false, nil
		}
		return false, statusError(sandbox.Pod, waited, status.Err)
	}
	over := time.NewTimer(h.budget())
	defer over.Stop()
	select {
	case <-status.Stored:
		return true, nil
	case <-over.C:
	case <-ctx.Done():
	}
	return false, statusError(sandbox.Pod, time.Since(status.Since), status.Err)
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

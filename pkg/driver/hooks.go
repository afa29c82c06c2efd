package driver

import (
	"context"
	"slices"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podlog"
)

// hookParts has the parts that hooks need.
type hookParts struct {
	store         *checkpoint.Store
	attacher      *attach.Attacher
	jobs          *attachJobs
	detacher      *detacher
	networkStatus *networkstatus.Writer
	claimStatus   *claimstatus.Writer
	watch         *podWatch
	runtime       *runtimeLink
	checker       *checker
	sweeper       *sweeper
	unclaimed     *unclaimedPods
	edits         *podEdits
	metrics       *metrics.Node
	sandboxes     sandboxReader
	// gate returns the hook that holds containers of a pod without a claim. No CDI device
	// brings it to them.
	gate func(ofPod []checkpoint.Record) *nri.Hook
	// deviceMetadata is true if containers get files about their devices.
	deviceMetadata bool
}

// hooks has the methods that the container runtime calls. NRI derives the subscription from
// the methods, and every event costs every pod of the node a call, so there are no others.
type hooks struct {
	hookParts
	// budget returns how long a hook may wait. All events of the node wait with it.
	budget func() time.Duration
	// attachWait is how much of it a new sandbox may have.
	attachWait time.Duration
}

// Configure records the runtime's name. It is called once after every connection, before
// Synchronize. It returns no events, which subscribes to those of the methods.
func (h *hooks) Configure(_ context.Context, _, runtime, _ string) (nri.EventMask, error) {
	h.runtime.setRuntime(runtime)
	return 0, nil
}

// RunPodSandbox attaches the pod's networks. A final failure while it waits fails the sandbox,
// and the kubelet makes a new one some seconds later. An attach that takes longer, or may yet
// succeed, continues behind the gate. A pod without a claim gets networks by its annotation, or
// is refused. One with claims gets what edits of the annotation have made of its networks.
func (h *hooks) RunPodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	defer failpoint.Soon(failpoint.AfterSandboxRun)
	defer failpoint.Reach(failpoint.BeforeSandboxRun)
	sandbox := h.sandboxes.of(pod)
	err := h.runSandbox(ctx, pod, sandbox)
	if err == nil {
		h.edits.started(liveSandbox{sandbox, isStatic(pod)})
	}
	return err
}

// runSandbox prepares what a new sandbox gets besides the networks of its pod's claims, and attaches it.
func (h *hooks) runSandbox(ctx context.Context, pod *nri.PodSandbox, sandbox attachment.Sandbox) error {
	claimed := slices.DeleteFunc(h.store.ForPod(pod.GetUid()), checkpoint.Record.Unclaimed)
	if !all(claimed, func(r checkpoint.Record) bool { return r.DeviceOnly }) {
		h.edits.begin(ctx, sandbox, h.budget())
	} else if prepared, err := h.prepareUnclaimed(ctx, pod); err != nil || !prepared && len(claimed) == 0 {
		return err
	}
	return h.await(ctx, h.jobs.attach(sandbox, true))
}

// prepareUnclaimed prepares a pod without a claim, within the time that a hook may wait.
func (h *hooks) prepareUnclaimed(ctx context.Context, pod *nri.PodSandbox) (prepared bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.budget(), reason.Errorf(reason.AttachTimeout, "the runtime's hook may wait for %s", h.budget()))
	defer cancel()
	return h.unclaimed.prepare(ctx, pod)
}

// hookWait returns how long the hook of a new sandbox waits for its networks. A final failure
// after that fails containers. A pod that restarts no container would be lost then, while the
// kubelet makes a new sandbox for one that fails: such a pod, or one that is unknown, has the
// whole budget. So has every pod if containers get files about their devices: a container does
// not see what is written to them after it was created.
func (h *hooks) hookWait(pod attachment.PodRef) time.Duration {
	if h.watch.restarts(pod) && !h.deviceMetadata {
		return min(h.attachWait, h.budget())
	}
	return h.budget()
}

// await waits for a job's first try. It returns nil if the gate is to decide.
func (h *hooks) await(ctx context.Context, j *job) error {
	over := time.NewTimer(h.hookWait(j.sandbox.Pod))
	defer over.Stop()
	select {
	case <-j.tried:
	case <-over.C:
	case <-ctx.Done():
	}
	return j.stopWatching()
}

// StopPodSandbox detaches the pod's networks while its namespace exists.
func (h *hooks) StopPodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	defer failpoint.Soon(failpoint.AfterSandboxStop)
	defer failpoint.Reach(failpoint.BeforeSandboxStop)
	return h.detach(ctx, pod)
}

// RemovePodSandbox detaches what is still attached: StopPodSandbox may not have been called.
func (h *hooks) RemovePodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	defer failpoint.Soon(failpoint.AfterSandboxRemove)
	defer failpoint.Reach(failpoint.BeforeSandboxRemove)
	return h.detach(ctx, pod)
}

// detach detaches a sandbox, and waits as long as a hook may. The DELs have their own time.
func (h *hooks) detach(ctx context.Context, pod *nri.PodSandbox) error {
	h.jobs.cancel(pod.GetUid(), pod.GetId(), errStopped)
	changing := h.edits.stopped(pod.GetUid(), pod.GetId())
	if !changing && !slices.ContainsFunc(h.store.ForPod(pod.GetUid()), checkpoint.InSandbox(pod.GetId())) {
		return nil
	}
	sandbox := h.sandboxes.of(pod)
	done := h.detacher.detachSandbox(sandbox)
	over := time.NewTimer(h.budget())
	defer over.Stop()
	select {
	case err := <-done:
		return err
	case <-over.C:
	case <-ctx.Done():
	}
	klog.FromContext(podlog.WithPod(ctx, sandbox.Pod)).Info("Detaching continues", "sandbox", sandbox.ID)
	return nil
}

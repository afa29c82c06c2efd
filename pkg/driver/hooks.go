package driver

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/nadra-dev/nadra/pkg/driver/internal/cdi"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podlog"
)

// hooks is what the container runtime calls. NRI derives the subscription from
// the methods, and every event costs every pod of the node a call: there are
// only those that are needed.
type hooks struct {
	d *Driver
	// budget is how long a hook may wait. All events of the node wait with it.
	budget func() time.Duration
	// attachWait is how long of it a new sandbox may have.
	attachWait time.Duration
}

// Configure is called once after every (re)connection, before Synchronize. It
// returns no events of its own: those of the methods are subscribed to.
func (h *hooks) Configure(_ context.Context, _, runtime, _ string) (nri.EventMask, error) {
	h.d.runtime.called(runtime)
	return 0, nil
}

// Synchronize is called once after every (re)connection, before any event.
// Sandboxes that were started while nobody listened are attached now, behind
// the gate, which holds their containers; what was made and could not be told
// is told; and what was made before this driver was started is checked, once,
// in the background.
func (h *hooks) Synchronize(ctx context.Context, pods []*nri.PodSandbox, _ []*nri.Container) ([]*nri.ContainerUpdate, error) {
	klog.FromContext(ctx).Info("Connected to the container runtime's NRI", "sandboxes", len(pods), "hookBudget", h.budget())
	first := !h.d.checks.began.Swap(true)
	for _, sandbox := range h.live(pods) {
		_, writing := h.d.networkStatus.Pending(sandbox.Pod)
		records := h.d.store.ForPod(sandbox.Pod.UID)
		if len(records) == 0 {
			continue
		}
		var attaching *job
		switch {
		case !h.attached(sandbox):
			attaching = h.d.attachSandbox(sandbox, false)
		case writing: // by this driver, which was connected before
		case slices.ContainsFunc(records, networkstatus.Missing):
			// Nobody knows for how long the pod has not shown its addresses.
			h.d.attachAgainSoon(sandbox)
			continue
		default:
			h.d.repairStatus(sandbox)
		}
		if lacks := h.d.attacher.Missing(sandbox); first && slices.ContainsFunc(records, func(r checkpoint.Record) bool { return !lacks(r) }) {
			h.d.checkAtStart(sandbox, attaching)
		}
	}
	failpoint.Reach(failpoint.BeforeSynchronized)
	failpoint.Soon(failpoint.AfterSynchronized)
	h.d.runtime.found()
	h.d.sweeper.poke()
	return nil, nil
}

// live returns the sandboxes that can be attached, one for each pod. Should
// there be two, the one that is attached has the pod's containers.
func (h *hooks) live(pods []*nri.PodSandbox) map[string]attachment.Sandbox {
	runtime := h.d.runtime.name()
	opens := func(netns string) bool {
		_, err := h.d.attacher.Netns.Inspect(netns)
		return err == nil
	}
	out := map[string]attachment.Sandbox{}
	for _, pod := range pods {
		s := sandboxOf(pod, h.d.isHost)
		if other, found := out[s.Pod.UID]; !alive(runtime, s.NetNS, pod.GetPid(), opens) || found && h.attached(other) {
			continue
		}
		out[s.Pod.UID] = s
	}
	return out
}

// runtimeContainerd is what containerd calls itself.
const runtimeContainerd = "containerd"

// alive decides whether a sandbox that the runtime lists can be attached. It
// lists stopped ones too, which have no namespace, or none that opens. Without a
// PID it is one whose pause process has died where the runtime is containerd,
// which makes one for every sandbox; what is at the path of its namespace is not
// asked then. CRI-O makes none (drop_infra_ctr), and only the namespace tells.
func alive(runtime, netns string, pid uint32, opens func(netns string) bool) bool {
	if netns == "" || pid != 0 {
		return netns != ""
	}
	return runtime != "" && runtime != runtimeContainerd && opens(netns)
}

// attached reports whether the sandbox has all attachments of its pod.
func (h *hooks) attached(s attachment.Sandbox) bool {
	return !slices.ContainsFunc(h.d.store.ForPod(s.Pod.UID), h.d.attacher.Missing(s))
}

// RunPodSandbox attaches the pod's networks. A failure for good that it waits
// for fails the sandbox, and the kubelet makes a new one some seconds later. What
// takes longer, or may yet succeed, goes on behind the gate (design D5). A pod that
// should have a claim and has none is refused.
func (h *hooks) RunPodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	defer failpoint.Soon(failpoint.AfterSandboxRun)
	defer failpoint.Reach(failpoint.BeforeSandboxRun)
	records := h.d.store.ForPod(pod.GetUid())
	if len(checkpoint.Networks(records)) == 0 {
		if err := h.d.refuseUnclaimed(pod); err != nil || len(records) == 0 {
			return err
		}
	}
	return h.await(ctx, h.d.attachSandbox(sandboxOf(pod, h.d.isHost), true))
}

// patience is how long the hook of a new sandbox waits for its networks. What
// fails after that for good fails containers. A pod that starts none again would
// be lost, while the kubelet makes a new sandbox for one that fails: such a pod,
// or one that is not known, has all the time that there is. So has every pod
// where containers get files about their devices: what is written to them after
// the container was made, it does not see.
func (h *hooks) patience(pod attachment.PodRef) time.Duration {
	if h.d.watch.restarts(pod) && !h.d.cfg.DeviceMetadata {
		return min(h.attachWait, h.budget())
	}
	return h.budget()
}

// await waits for a job's first attempt. It returns nil when the gate is to
// decide.
func (h *hooks) await(ctx context.Context, j *job) error {
	over := time.NewTimer(h.patience(j.sandbox.Pod))
	defer over.Stop()
	select {
	case <-j.tried:
	case <-over.C:
	case <-ctx.Done():
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.watched = false
	if !j.running() {
		return j.err
	}
	return nil
}

// CreateContainer refuses a container whose pod lacks an attachment in this very
// sandbox, or whose network-status is late, unless the gate is to hold it: the
// attachment is being made and nothing has failed yet, or the status has just
// been sent. The kubelet asks again every 11–15 s after a refusal here, also for
// pods that are never restarted, for which one at the gate is the end.
func (h *hooks) CreateContainer(ctx context.Context, pod *nri.PodSandbox, _ *nri.Container) (*nri.ContainerAdjustment, []*nri.ContainerUpdate, error) {
	defer failpoint.Soon(failpoint.AfterContainerCreate)
	defer failpoint.Reach(failpoint.BeforeContainerCreate)
	records := h.d.store.ForPod(pod.GetUid())
	if len(records) == 0 {
		return nil, nil, nil
	}
	sandbox := sandboxOf(pod, h.d.isHost)
	outcome := metrics.Held
	if j := h.d.jobs.of(sandbox); j == nil || !h.outlasts(j) || !j.hold() {
		records = h.d.store.ForPod(sandbox.Pod.UID)
		if i := slices.IndexFunc(records, h.d.attacher.Missing(sandbox)); i >= 0 {
			h.d.metrics.Gate(metrics.Refused, 1)
			return nil, nil, phaseError(records[i], sandbox, h.notAttached(sandbox, j, records))
		}
		stored, err := h.awaitNetworkStatus(ctx, sandbox, records)
		if err != nil {
			h.d.metrics.Gate(metrics.Refused, 1)
			return nil, nil, err
		}
		if stored {
			outcome = metrics.Passed
		}
	}
	h.d.metrics.Gate(outcome, 1)
	return nil, nil, nil
}

// outlasts reports whether the gate may hold a container for a job: it waits for
// as long as the job may take, or what it fails is started again.
func (h *hooks) outlasts(j *job) bool {
	return j.limit < cdi.GateWait || h.d.watch.restarts(j.sandbox.Pod)
}

// awaitNetworkStatus reports whether the network-status of an attached pod is
// stored. It returns an error when that is late. A pod that starts no container
// again is given the hook's time, and an error after that: the gate's refusal
// would be its end.
func (h *hooks) awaitNetworkStatus(ctx context.Context, sandbox attachment.Sandbox, records []checkpoint.Record) (stored bool, err error) {
	if !slices.ContainsFunc(records, networkstatus.Missing) {
		return true, nil
	}
	status, found := h.d.networkStatus.Pending(sandbox.Pod)
	if !found { // it is to be attached again
		return false, nil
	}
	waited := time.Since(status.Since)
	if h.d.watch.restarts(sandbox.Pod) {
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

// statusError says what a pod waits for whose networks are attached.
func statusError(pod attachment.PodRef, waited time.Duration, cause error) error {
	err := fmt.Errorf("pod %s/%s has its networks, but the API server has not stored its network-status for %s; that is being tried again",
		pod.Namespace, pod.Name, waited.Round(100*time.Millisecond))
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return reason.Wrap(reason.StatusNotStored, err)
}

// notAttached says why a sandbox is not attached. Where that has failed for
// good the runtime's request is the occasion for a new attempt: whoever has
// repaired the cause need not delete the pod.
func (h *hooks) notAttached(sandbox attachment.Sandbox, j *job, records []checkpoint.Record) error {
	ended, cause := time.Time{}, errNotBegun
	if j != nil {
		ended, cause = j.failure()
	}
	if j != nil && j.running() {
		if cause == nil {
			return reason.Errorf(reason.AttachRunning, "its plugins are running, and may for %s", j.limit)
		}
		return reason.Errorf(reason.AttachRunning, "it is being tried again after: %w", cause)
	}
	if sandbox.NetNS == "" {
		return attach.NoNamespaceError(sandbox, checkpoint.Networks(records))
	}
	if time.Since(ended) > freshFailure {
		h.d.attachSandbox(sandbox, false)
	}
	return cause
}

// phaseError says in words what a pod lacks in a sandbox, for its events.
func phaseError(r checkpoint.Record, sandbox attachment.Sandbox, cause error) error {
	return fmt.Errorf("pod %s/%s is not attached to network %s (%s) in sandbox %.12s, phase %s: %w",
		sandbox.Pod.Namespace, sandbox.Pod.Name, r.Attachment.Network, r.Attachment.Interface, sandbox.ID, r.Phase, cause)
}

// StopPodSandbox detaches the pod's networks while its namespace is there.
func (h *hooks) StopPodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	defer failpoint.Soon(failpoint.AfterSandboxStop)
	defer failpoint.Reach(failpoint.BeforeSandboxStop)
	return h.detach(ctx, pod)
}

// RemovePodSandbox detaches what StopPodSandbox, which may never have come,
// has left.
func (h *hooks) RemovePodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	defer failpoint.Soon(failpoint.AfterSandboxRemove)
	defer failpoint.Reach(failpoint.BeforeSandboxRemove)
	return h.detach(ctx, pod)
}

// detach waits as long as a hook may; the DELs have their own time.
func (h *hooks) detach(ctx context.Context, pod *nri.PodSandbox) error {
	h.d.jobs.forget(pod.GetUid(), pod.GetId(), errStopped)
	if !slices.ContainsFunc(h.d.store.ForPod(pod.GetUid()), checkpoint.InSandbox(pod.GetId())) {
		return nil
	}
	sandbox := sandboxOf(pod, h.d.isHost)
	done := make(chan error, 1)
	h.d.jobs.group.Go(func() { done <- h.d.detachSandbox(sandbox) })
	over := time.NewTimer(h.budget())
	defer over.Stop()
	select {
	case err := <-done:
		return err
	case <-over.C:
	case <-ctx.Done():
	}
	klog.FromContext(podlog.WithPod(ctx, sandbox.Pod)).Info("Detaching goes on", "sandbox", sandbox.ID)
	return nil
}

// detachSandbox runs the DELs that are owed for one sandbox. A failure is
// logged by the runtime or here, and tried again when the claims are unprepared.
func (d *Driver) detachSandbox(s attachment.Sandbox) error {
	limit := d.attacher.Limits.Detaching(d.store.ForPod(s.Pod.UID))
	defer d.detaches.begin(limit)()
	ctx, cancel := context.WithTimeoutCause(podlog.WithPod(d.jobs.base, s.Pod), limit, reason.Errorf(reason.DELUnfinished, "the time for detaching is over"))
	defer cancel()
	unlock, err := d.pods.lock(ctx, s.Pod.UID)
	if err == nil {
		defer unlock()
		err = d.attacher.Detach(ctx, s.Pod.UID, checkpoint.InSandbox(s.ID))
	}
	if err != nil {
		return reason.Errorf(reason.DELUnfinished, "detaching pod %s/%s (tried again when its claims are unprepared): %w", s.Pod.Namespace, s.Pod.Name, err)
	}
	return nil
}

// sandboxOf converts NRI's pod; no other place does. The sandbox of a pod with
// the host's network has no namespace, whatever the runtime reports: containerd
// reports none, CRI-O a path at which isHost finds the host's.
func sandboxOf(pod *nri.PodSandbox, isHost func(netns string) bool) attachment.Sandbox {
	s := attachment.Sandbox{
		ID:  pod.GetId(),
		Pod: attachment.PodRef{Namespace: pod.GetNamespace(), Name: pod.GetName(), UID: pod.GetUid()},
		IPs: pod.GetIps(),
	}
	namespaces := pod.GetLinux().GetNamespaces()
	s.Unspecified = len(namespaces) == 0
	for _, ns := range namespaces {
		if ns.GetType() == "network" && !isHost(ns.GetPath()) {
			s.NetNS = ns.GetPath()
		}
	}
	return s
}

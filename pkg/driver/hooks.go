package driver

import (
	"context"
	"slices"
	"sync"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
)

// hooks has the methods that the container runtime calls. NRI derives the subscription from
// the methods, and every event costs every pod of the node a call, so there are no others.
type hooks struct {
	*nriClient
	// limit returns the runtime's limit for a request, which is known once it has connected.
	limit func() time.Duration
}

// budget returns how long a hook may wait. All events of the node wait with it.
func (h *hooks) budget() time.Duration { return hookBudget(h.cfg.HookBudget, h.limit()) }

// done measures a call that has returned.
func (h *hooks) done(event string, started time.Time) {
	h.cfg.Metrics.Hooked(event, time.Since(started), h.limit())
}

// Configure records the runtime's name. It is called once after every connection, before
// Synchronize. It returns no events, which subscribes to those of the methods.
func (h *hooks) Configure(_ context.Context, _, runtime, _ string) (nri.EventMask, error) {
	h.runtime.setRuntime(runtime)
	return 0, nil
}

// RunPodSandbox begins to attach the pod's networks. A final failure while it waits fails the sandbox,
// and the kubelet makes a new one some seconds later. What takes longer, or may yet succeed,
// continues behind CreateContainer and the gate. A pod without a claim gets networks by its
// annotation, or is refused. One with claims gets what edits of the annotation have made of its
// networks.
func (h *hooks) RunPodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	defer h.done(metrics.RunPodSandbox, time.Now())
	defer failpoint.Soon(failpoint.AfterSandboxRun)
	defer failpoint.Reach(failpoint.BeforeSandboxRun)
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	s := h.liveOf(pod)
	if _, err := h.preparer.hasMoved(s, nil); err != nil {
		received(ctx, h, h.watch.seen(ctx, s.Pod))
	}
	j, err := h.begin(s)
	if err == nil && j != nil {
		err = h.await(ctx, j)
	}
	if err != nil {
		h.edits.stopped(pod.GetUid(), pod.GetId()) // the runtime ends it without another event
	}
	return err
}

// begin begins to attach a new sandbox. It returns nil if there is nothing to attach.
func (h *hooks) begin(s liveSandbox) (*job, error) {
	switch moved, err := h.preparer.hasMoved(s, nil); {
	case err != nil:
		return nil, err
	case moved:
		return h.takeClaims(s, true), nil
	}
	claimed := slices.DeleteFunc(h.store.ForPod(s.Pod.UID), checkpoint.Record.Unclaimed)
	if len(checkpoint.Networks(claimed)) > 0 {
		return h.jobs.attach(s.Sandbox, func(ctx context.Context) error {
			h.edits.begin(ctx, s.Sandbox)
			h.edits.started(s)
			return nil
		}, true), nil
	}
	switch pending, err := h.unclaimed.consider(s); {
	case err != nil:
		return nil, err
	case pending:
		return h.unclaimed.attach(s, true), nil
	case len(claimed) > 0: // devices
		return h.jobs.attach(s.Sandbox, nil, true), nil
	}
	return nil, nil
}

// takeClaims returns the job that attaches the sandbox of a pod to which claims have passed from another pod. It starts
// one if there is none.
func (h *hooks) takeClaims(s liveSandbox, watched bool) *job {
	return h.jobs.attach(s.Sandbox, func(ctx context.Context) error {
		if err := h.preparer.prepareMoved(ctx, s.Pod); err != nil {
			return err
		}
		h.edits.begin(ctx, s.Sandbox)
		h.edits.started(s)
		return nil
	}, watched)
}

// await waits until the job's sandbox has its records, and then for its first try unless the gate
// may hold the pod's containers. It returns nil if CreateContainer and the gate are to decide.
func (h *hooks) await(ctx context.Context, j *job) error {
	received(ctx, h, j.prepared)
	if !h.gateMayHold(j.sandbox.Pod) {
		received(ctx, h, j.tried)
	}
	return j.stopWatching()
}

// gateMayHold reports whether the gate may hold a pod's containers while the pod is being attached.
// It may fail them in the end, and a pod that restarts no container, or is unknown, would be lost then:
// such a pod's containers are not created before. Neither are those that get files about their devices:
// a container does not see what is written to these after it was created.
func (h *hooks) gateMayHold(pod attachment.PodRef) bool {
	return h.watch.restarts(pod) && !h.cfg.DeviceMetadata
}

// deadline returns the context of one hook, which ends when the hook must answer.
func (h *hooks) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, h.budget(), reason.Errorf(reason.AttachTimeout, "the runtime's hook may wait for %s", h.budget()))
}

// received waits for c until the hook's deadline, while the allowance of all hooks lasts. ok is
// false if the wait was over before.
func received[T any](ctx context.Context, h *hooks, c <-chan T) (value T, ok bool) {
	select {
	case value = <-c:
		return value, true
	default:
	}
	started := time.Now()
	over := time.NewTimer(h.waits.available(started, h.budget()))
	defer over.Stop()
	defer func() { h.waits.spend(time.Since(started)) }()
	select {
	case value = <-c:
		return value, true
	case <-over.C:
	case <-ctx.Done():
	}
	return value, false
}

// StopPodSandbox detaches the pod's networks while its namespace exists.
func (h *hooks) StopPodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	defer h.done(metrics.StopPodSandbox, time.Now())
	defer failpoint.Soon(failpoint.AfterSandboxStop)
	defer failpoint.Reach(failpoint.BeforeSandboxStop)
	return h.detach(ctx, pod)
}

// RemovePodSandbox detaches what is still attached: StopPodSandbox may not have been called.
func (h *hooks) RemovePodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	defer h.done(metrics.RemovePodSandbox, time.Now())
	defer failpoint.Soon(failpoint.AfterSandboxRemove)
	defer failpoint.Reach(failpoint.BeforeSandboxRemove)
	return h.detach(ctx, pod)
}

// detach detaches a sandbox, and waits as long as a hook may. The DELs have their own time.
func (h *hooks) detach(ctx context.Context, pod *nri.PodSandbox) error {
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	attaching := h.jobs.cancel(pod.GetUid(), pod.GetId(), errStopped)
	changing := h.edits.stopped(pod.GetUid(), pod.GetId())
	if !attaching && !changing && !slices.ContainsFunc(h.store.ForPod(pod.GetUid()), checkpoint.InSandbox(pod.GetId())) {
		return nil
	}
	sandbox := h.sandboxOf(pod)
	done := h.detachSandbox(sandbox)
	err, ok := received(ctx, h, done)
	if !ok {
		log := klog.FromContext(operations.WithPod(ctx, sandbox.Pod)).WithValues("sandbox", sandbox.ID)
		log.Info("Detaching continues")
		h.operations.Go(func(context.Context) {
			if err := <-done; err != nil {
				log.Error(err, "Detaching failed; it is tried again")
			}
		})
	}
	return err
}

// liveOf converts NRI's pod for liveSandboxes.
func (n *node) liveOf(pod *nri.PodSandbox) liveSandbox {
	return liveSandbox{Sandbox: n.sandboxOf(pod), static: isStatic(pod), annotation: attachment.NetworksKey(pod.GetAnnotations()), launcher: attachment.IsLauncher(pod.GetLabels())}
}

// sandboxOf converts NRI's pod, whose annotations are those of the time when the sandbox was made. The sandbox
// of a pod with the host's network has no namespace, whatever the runtime reports: containerd
// reports none, CRI-O a path at which isHost finds the host's. Of an annotation beyond the limit it
// keeps as much as refuses it.
func (n *node) sandboxOf(pod *nri.PodSandbox) attachment.Sandbox {
	s := attachment.Sandbox{
		ID:  pod.GetId(),
		Pod: attachment.PodRef{Namespace: pod.GetNamespace(), Name: pod.GetName(), UID: pod.GetUid()},
		IPs: pod.GetIps(),
	}
	networks := v1alpha1.Cut(n.cfg.networksText(pod.GetAnnotations()), v1alpha1.MaxAnnotation)
	s.Networks, s.Described = &networks, pod.GetAnnotations()[v1alpha1.DescribedAnnotation] != ""
	namespaces := pod.GetLinux().GetNamespaces()
	s.Unspecified = len(namespaces) == 0
	for _, ns := range namespaces {
		if ns.GetType() == "network" && !n.isHost(ns.GetPath()) {
			s.NetNS = ns.GetPath()
		}
	}
	return s
}

// waitShare is the inverse of the share of time that the hooks of all pods together may wait.
const waitShare = 10

// waitAllowance bounds how long the hooks of all pods together may wait. The runtime hands out the
// events of all pods one after the other, so every pod of the node waits with a hook. The
// allowance grows by a share of the time that passes, up to what one hook may wait. The zero value
// is full.
type waitAllowance struct {
	mu   sync.Mutex
	left time.Duration
	at   time.Time // when left was computed
}

// available returns how long a hook may wait that begins now. most is what one hook may wait.
func (a *waitAllowance) available(now time.Time, most time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left, a.at = min(a.left+now.Sub(a.at)/waitShare, most), now
	return max(a.left, 0)
}

// spend takes what a hook has waited.
func (a *waitAllowance) spend(waited time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left -= waited
}

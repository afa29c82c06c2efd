package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

const (
	// nriIndex orders us among NRI plugins: late, so that others have spoken.
	nriIndex = "90"
	// reconnectMin and reconnectMax bound the pause before the next attempt to
	// reach the runtime. Until it succeeds Prepare waits and no pod of ours starts.
	reconnectMin = 100 * time.Millisecond
	reconnectMax = 5 * time.Second
	// replyTime is kept from the runtime's request timeout for the answer.
	// Beyond the timeout the runtime would drop us and start the pod without
	// its networks: NRI fails open.
	replyTime = 100 * time.Millisecond
)

// hooks is what the container runtime calls. NRI derives the subscription from
// the methods, and every event costs every pod of the node a call: there are
// only those that are needed.
type hooks struct {
	d *Driver
	// budget is how long RunPodSandbox may attach before it takes down what it
	// has begun and gives up.
	budget func() time.Duration
}

// runNRI keeps the connection to the runtime until ctx ends.
func (d *Driver) runNRI(ctx context.Context) error {
	pause := reconnectMin
	for ctx.Err() == nil {
		started := time.Now()
		reason := d.serveNRI(ctx)
		d.runtime.lost()
		if time.Since(started) > reconnectMax {
			pause = reconnectMin
		}
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(reason, "Lost the container runtime's NRI; pods with claims wait until it is back", "retryIn", pause)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, reconnectMax)
	}
	return nil
}

// serveNRI serves one connection to the runtime.
func (d *Driver) serveNRI(ctx context.Context) error {
	h := &hooks{d: d}
	s, err := stub.New(h,
		stub.WithPluginName("nadra"),
		stub.WithPluginIdx(nriIndex),
		stub.WithSocketPath(d.cfg.NRISocket),
		stub.WithLogger(nriLogger{klog.FromContext(ctx).WithName("nri")}),
		stub.WithFailurePolicy(&nri.FailurePolicy{FailRequest: true, KeepConnected: true}),
	)
	if err != nil {
		return fmt.Errorf("making the NRI stub: %w", err)
	}
	h.budget = func() time.Duration { return s.RequestTimeout() - rollbackTime - replyTime }
	stop := context.AfterFunc(ctx, s.Stop)
	defer stop()
	if err := s.Run(ctx); err != nil {
		return fmt.Errorf("serving NRI on %s: %w", d.cfg.NRISocket, err)
	}
	return errors.New("the runtime closed the NRI connection")
}

// Synchronize is called once after every (re)connection, before any event.
func (h *hooks) Synchronize(ctx context.Context, pods []*nri.PodSandbox, _ []*nri.Container) ([]*nri.ContainerUpdate, error) {
	klog.FromContext(ctx).Info("Connected to the container runtime's NRI", "sandboxes", len(pods), "attachBudget", h.budget())
	h.d.runtime.found()
	return nil, nil
}

// RunPodSandbox attaches the pod's networks. An error fails the sandbox; the
// kubelet makes a new one some seconds later.
func (h *hooks) RunPodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	if len(h.d.store.ForPod(pod.GetUid())) == 0 {
		return nil
	}
	started := time.Now()
	sandbox := sandboxOf(pod)
	ctx, cancel := context.WithTimeoutCause(h.d.withPod(ctx, sandbox.Pod), h.budget(),
		fmt.Errorf("the container runtime's NRI request timeout is nearly over: raise plugin_request_timeout in its NRI configuration"))
	defer cancel()
	defer h.d.pods.lock(sandbox.Pod.UID)()

	err := h.d.attacher.attach(ctx, sandbox)
	h.d.reportAttach(sandbox, err)
	if err != nil {
		return fmt.Errorf("attaching pod %s/%s: %w", sandbox.Pod.Namespace, sandbox.Pod.Name, err)
	}
	klog.FromContext(ctx).Info("Attached pod", "sandbox", sandbox.ID, "took", time.Since(started))
	return nil
}

// CreateContainer refuses a container whose pod lacks an attachment in this
// very sandbox (design D4, second guard).
func (h *hooks) CreateContainer(_ context.Context, pod *nri.PodSandbox, _ *nri.Container) (*nri.ContainerAdjustment, []*nri.ContainerUpdate, error) {
	for _, r := range h.d.store.ForPod(pod.GetUid()) {
		if r.Phase != checkpoint.Attached || r.Sandbox.ID != pod.GetId() {
			return nil, nil, fmt.Errorf("pod %s/%s is not attached to network %s (%s) in sandbox %s: phase %s",
				pod.GetNamespace(), pod.GetName(), r.Attachment.Network, r.Attachment.Interface, pod.GetId(), r.Phase)
		}
	}
	return nil, nil, nil
}

// StopPodSandbox detaches the pod's networks while its namespace is there.
func (h *hooks) StopPodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	return h.detach(ctx, pod)
}

// RemovePodSandbox detaches what StopPodSandbox, which may never have come,
// has left.
func (h *hooks) RemovePodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	return h.detach(ctx, pod)
}

func (h *hooks) detach(ctx context.Context, pod *nri.PodSandbox) error {
	if len(h.d.store.ForPod(pod.GetUid())) == 0 {
		return nil
	}
	sandbox := sandboxOf(pod)
	ctx, cancel := context.WithTimeout(h.d.withPod(ctx, sandbox.Pod), h.budget())
	defer cancel()
	defer h.d.pods.lock(sandbox.Pod.UID)()
	err := h.d.attacher.detach(ctx, sandbox.Pod.UID, func(r checkpoint.Record) bool { return r.Sandbox.ID == sandbox.ID })
	if err != nil {
		return fmt.Errorf("detaching pod %s/%s (tried again when its claims are unprepared): %w", sandbox.Pod.Namespace, sandbox.Pod.Name, err)
	}
	return nil
}

// sandboxOf is the one place where NRI's pod becomes ours.
func sandboxOf(pod *nri.PodSandbox) attachment.Sandbox {
	s := attachment.Sandbox{
		ID:  pod.GetId(),
		Pod: attachment.PodRef{Namespace: pod.GetNamespace(), Name: pod.GetName(), UID: pod.GetUid()},
	}
	for _, ns := range pod.GetLinux().GetNamespaces() {
		if ns.GetType() == "network" {
			s.NetNS = ns.GetPath()
		}
	}
	return s
}

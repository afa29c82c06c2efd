package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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
	// repairTime bounds an attachment behind the gate: about as long as the gate
	// holds its containers.
	repairTime = gateWait
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
	// ctx ends when the driver stops; what goes on behind a hook has it.
	ctx context.Context
	// repairs are the attachments made behind Synchronize.
	repairs sync.WaitGroup
	// repairing has the sandboxes that they are for.
	repairing sync.Map
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
	h := &hooks{d: d, ctx: ctx}
	defer h.repairs.Wait()
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
// Sandboxes that were started while nobody listened are attached now, behind
// the gate, which holds their containers.
func (h *hooks) Synchronize(ctx context.Context, pods []*nri.PodSandbox, _ []*nri.Container) ([]*nri.ContainerUpdate, error) {
	klog.FromContext(ctx).Info("Connected to the container runtime's NRI", "sandboxes", len(pods), "attachBudget", h.budget())
	for _, pod := range pods {
		sandbox := sandboxOf(pod)
		// Stopped sandboxes are listed too; they have no namespace any more.
		if sandbox.NetNS != "" && slices.ContainsFunc(h.d.store.ForPod(sandbox.Pod.UID), h.d.attacher.lacking(sandbox)) {
			h.repairing.Store(sandbox.ID, true)
			h.repairs.Go(func() { h.repair(sandbox) })
		}
	}
	h.d.runtime.found()
	return nil, nil
}

// repair attaches a sandbox that missed its RunPodSandbox.
func (h *hooks) repair(sandbox attachment.Sandbox) {
	defer h.repairing.Delete(sandbox.ID)
	ctx, cancel := context.WithTimeoutCause(h.d.withPod(h.ctx, sandbox.Pod), repairTime, errors.New("the time for attaching behind the gate is over"))
	defer cancel()
	if err := h.attach(ctx, sandbox); err != nil {
		klog.FromContext(ctx).Error(err, "Attaching a sandbox that was started without the driver failed", "sandbox", sandbox.ID)
	}
}

// RunPodSandbox attaches the pod's networks. An error fails the sandbox; the
// kubelet makes a new one some seconds later.
func (h *hooks) RunPodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	if len(h.d.store.ForPod(pod.GetUid())) == 0 {
		return nil
	}
	sandbox := sandboxOf(pod)
	ctx, cancel := context.WithTimeoutCause(h.d.withPod(ctx, sandbox.Pod), h.budget(),
		fmt.Errorf("the container runtime's NRI request timeout is nearly over: raise plugin_request_timeout in its NRI configuration"))
	defer cancel()
	return h.attach(ctx, sandbox)
}

// attach attaches one sandbox and reports it.
func (h *hooks) attach(ctx context.Context, sandbox attachment.Sandbox) error {
	started := time.Now()
	unlock, err := h.d.pods.lock(ctx, sandbox.Pod.UID)
	if err == nil {
		defer unlock()
		err = h.d.attacher.attach(ctx, sandbox)
	}
	h.d.reportAttach(sandbox, err)
	if err != nil {
		return fmt.Errorf("attaching pod %s/%s: %w", sandbox.Pod.Namespace, sandbox.Pod.Name, err)
	}
	klog.FromContext(ctx).Info("Attached pod", "sandbox", sandbox.ID, "took", time.Since(started))
	return nil
}

// CreateContainer refuses a container whose pod lacks an attachment in this
// very sandbox (design D4, second guard), unless it is being made: then the
// gate holds the container. It adds the gate where no claim brings it.
func (h *hooks) CreateContainer(_ context.Context, pod *nri.PodSandbox, container *nri.Container) (*nri.ContainerAdjustment, []*nri.ContainerUpdate, error) {
	records := h.d.store.ForPod(pod.GetUid())
	if len(records) == 0 {
		return nil, nil, nil
	}
	if _, repairing := h.repairing.Load(pod.GetId()); !repairing {
		lacks := h.d.attacher.lacking(sandboxOf(pod))
		if i := slices.IndexFunc(records, lacks); i >= 0 {
			at := records[i].Attachment
			return nil, nil, fmt.Errorf("pod %s/%s is not attached to network %s (%s) in sandbox %s: phase %s",
				pod.GetNamespace(), pod.GetName(), at.Network, at.Interface, pod.GetId(), records[i].Phase)
		}
	}
	return h.d.gate.adjustment(container, records), nil, nil
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
	unlock, err := h.d.pods.lock(ctx, sandbox.Pod.UID)
	if err == nil {
		defer unlock()
		err = h.d.attacher.detach(ctx, sandbox.Pod.UID, func(r checkpoint.Record) bool { return r.Sandbox.ID == sandbox.ID })
	}
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

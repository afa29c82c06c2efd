package driver

import (
	"context"
	"slices"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
)

// Synchronize first takes over from another driver. containerd runs nothing else while it synchronises a plugin, so this is
// the moment at which no event can be lost: the driver before has had all earlier ones, and this one gets all later ones. An
// error makes the runtime drop this connection, and the driver before goes on.
//
// Synchronize then attaches sandboxes that were started while the driver was not connected,
// behind the gate, which holds their containers. The sweep, which it triggers, attaches those of pods
// without a claim. It reports attachments that an earlier
// driver could not report, and checks once, in the background, those that an earlier
// driver has made, except those of virtual machines, whose interfaces virt-handler
// changes for the guest. It is called once after every connection, before any event: after the
// driver or the runtime was restarted.
//
// containerd and CRI-O list the containers that are created or run, and none that has exited. So a
// listed container proves that its sandbox has begun, and a sandbox without one may have begun, too: its
// containers have exited. What this process has admitted itself it remembers. Any other such sandbox
// counts as new, and a pod without a claim that the node refuses gets no further container in it.
func (h *hooks) Synchronize(ctx context.Context, sandboxes []*nri.PodSandbox, containers []*nri.Container) ([]*nri.ContainerUpdate, error) {
	defer h.done(metrics.Synchronize, time.Now())
	if err := h.successor.handOver(ctx, h.limit()-syncMargin); err != nil {
		return nil, err
	}
	h.runtime.setLimit(h.limit())
	h.cfg.Metrics.Connected()
	klog.FromContext(ctx).Info("Connected to the container runtime's NRI", "sandboxes", len(sandboxes), "hookBudget", h.budget())
	first := !h.checker.began.Swap(true)
	byID := map[string]*nri.PodSandbox{}
	for _, pod := range sandboxes {
		byID[pod.GetId()] = pod
	}
	before, begun := h.sandboxes.reset(), map[string]bool{}
	for _, c := range containers {
		begun[c.GetPodSandboxId()] = true
	}
	for _, sandbox := range h.attachable(sandboxes) {
		live := h.liveOf(byID[sandbox.ID])
		known := before[sandbox.ID]
		live.begun, live.pending = begun[sandbox.ID] || known.begun, known.pending && !known.late
		live.late = !live.pending
		_, writing := h.networkStatus.Pending(sandbox.Pod)
		records := h.store.ForPod(sandbox.Pod.UID)
		if onlyDevices(records) {
			_, _ = h.unclaimed.consider(live) // CreateContainer refuses
		} else {
			h.edits.started(live)
		}
		if len(records) == 0 {
			continue
		}
		var attaching *job
		switch {
		case !h.attached(sandbox):
			attaching = h.jobs.attach(sandbox, nil, false)
		case writing: // by this driver, which was connected before
		case slices.ContainsFunc(records, networkstatus.Missing):
			// It is unknown for how long the pod has not shown its addresses.
			h.jobs.attachAgainSoon(sandbox)
			continue
		case checkpoint.AnyAdopted(records): // Multus wrote their status
		default:
			h.repairStatus(sandbox)
		}
		if missing := h.attacher.Missing(sandbox); first && !live.launcher && slices.ContainsFunc(records, func(r checkpoint.Record) bool { return !missing(r) }) {
			h.checker.checkAtStart(sandbox, attaching)
		}
	}
	failpoint.Reach(failpoint.BeforeSynchronized)
	failpoint.Soon(failpoint.AfterSynchronized)
	h.runtime.connected()
	h.sweeps.Set()
	return nil, nil
}

// attachable returns the sandboxes that can be attached, one for each pod, or that have devices in the host's network. If
// a pod has two, the one that is attached has the pod's containers.
func (h *hooks) attachable(sandboxes []*nri.PodSandbox) map[string]attachment.Sandbox {
	runtime := h.runtime.name()
	opens := func(netns string) bool {
		_, err := h.attacher.Netns.Inspect(netns)
		return err == nil
	}
	out := map[string]attachment.Sandbox{}
	for _, pod := range sandboxes {
		s := h.sandboxOf(pod)
		usable := alive(runtime, s.NetNS, pod.GetPid(), opens) || h.hasOnlyDevices(s) && (pod.GetPid() != 0 || runtime != runtimeContainerd)
		if other, found := out[s.Pod.UID]; usable && (!found || !h.attached(other)) {
			out[s.Pod.UID] = s
		}
	}
	return out
}

// runtimeContainerd is the name of containerd.
const runtimeContainerd = "containerd"

// alive reports whether a sandbox that the runtime lists can be attached. The runtime lists
// stopped ones, too, which have no namespace, or none that opens. containerd makes a pause
// process for every sandbox: without a PID that process has died, whatever is at the path of
// the namespace. CRI-O makes none (drop_infra_ctr), so only the namespace decides.
func alive(runtime, netns string, pid uint32, opens func(netns string) bool) bool {
	if netns == "" || pid != 0 {
		return netns != ""
	}
	return runtime != "" && runtime != runtimeContainerd && opens(netns)
}

// attached reports whether the sandbox has all attachments and devices of its pod.
func (h *hooks) attached(s attachment.Sandbox) bool {
	missing := h.attacher.Missing(s)
	return all(h.store.ForPod(s.Pod.UID), func(r checkpoint.Record) bool {
		return !missing(r) && (!r.DeviceOnly || checkpoint.InSandbox(s.ID)(r) && r.BootID == h.store.BootID())
	})
}

// repairStatus stores the status of attachments that an earlier driver made and did not report.
func (h *hooks) repairStatus(sandbox attachment.Sandbox) {
	records := h.store.ForPod(sandbox.Pod.UID)
	h.networkStatus.Repair(sandbox, records)
	for claim, devices := range claimstatus.ByClaim(records, claimstatus.AttachedBefore) {
		h.claimStatus.Repair(claim, devices)
	}
}

package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	securejoin "github.com/cyphar/filepath-securejoin"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/internal/multusstate"
	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
)

const (
	// adoptEvery is the interval at which the adopter looks for sandboxes of Multus.
	adoptEvery = 2 * time.Second
	// begunLimit is the time after which a sandbox without any network is one whose first
	// ADD has failed, and not one that Multus is attaching.
	begunLimit = time.Minute
	// busyWait is the time for which the adopter waits for another operation on a pod.
	busyWait = 100 * time.Millisecond
	// tidyEvery is the interval at which the adopter looks for adopted sandboxes that have
	// ended. It reads more files than the look for new ones.
	tidyEvery = 10 * time.Second
	// runtimeCache is the cache of libcni that container runtimes use, a path in the host.
	runtimeCache = "/var/lib/cni/results"
)

// custody knows who deletes the attachments that Multus has made on this node.
type custody struct {
	dir multusstate.Dir
	// without reports whether the container runtime certainly does not call Multus.
	without func() (bool, error)
}

// custodyOf returns who deletes Multus' attachments, by the host's directories.
func custodyOf(cfg Config) (custody, error) {
	var dirs [3]string
	for i, path := range []string{cfg.MultusDir, runtimeCache, cfg.CNIConfDir} {
		inside, err := securejoin.SecureJoin(cfg.HostRoot, path)
		if err != nil {
			return custody{}, fmt.Errorf("finding %s in the host: %w", path, err)
		}
		dirs[i] = inside
	}
	return custody{dir: multusstate.Dir{Multus: dirs[0], Runtime: dirs[1]}, without: multusstate.ConfDirs{Conf: dirs[2]}.WithoutMultus}, nil
}

// ours reports whether nadra runs the DELs of an adopted sandbox. A sandbox that was given back is
// Multus' as soon as the runtime calls Multus.
func (c custody) ours(sandboxID string) (bool, error) {
	if c.dir.Holder(sandboxID) == multusstate.Nadra {
		return true, nil
	}
	without, err := c.without()
	if err != nil || !without {
		return false, err
	}
	_, err = c.dir.Take(sandboxID)
	return err == nil, err
}

// ofMultus reports whether Multus has attached a sandbox, and nadra has not taken it.
func (c custody) ofMultus(sandboxID string) bool {
	return c.dir.Holder(sandboxID) == multusstate.Multus
}

// adopter takes over the attachments that Multus has made on this node, without touching their
// pods, and gives them back:
//
//   - While the node is nadra's and the container runtime does not call Multus, it records the
//     attachments of every sandbox that Multus has, and takes Multus' file of it. From then on
//     nadra runs their DELs. Sandboxes that are gone get their DELs at once.
//   - While the node is not nadra's, it gives the files back, and makes such files for pods that nadra
//     has attached without a claim. Once the runtime calls Multus, it forgets the records, because
//     Multus runs the DELs (giveback.go).
//
// It decides by what is on the node, so it continues after an interruption at any point.
type adopter struct {
	*pods
	adoptions checkpoint.Adoptions
	requests  background.Trigger
	// reported has the problems that were reported, by sandbox.
	reported map[string]string
	// tidied is the time at which the adopter last looked for sandboxes that have ended.
	tidied time.Time
}

// run adopts and gives back until ctx ends.
func (a *adopter) run(ctx context.Context) error {
	tick := time.NewTicker(adoptEvery)
	defer tick.Stop()
	for {
		if err := a.look(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Looking for attachments of Multus failed; trying again")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-a.requests.C():
		}
	}
}

// look does once what the node's owner requires. It does nothing while the owner is unknown, and
// where nodes do not change hands: what an earlier Multus has left there is for cleanup.
func (a *adopter) look(ctx context.Context) error {
	if a.owner.Label == "" || !a.owner.known() {
		return nil
	}
	without, err := a.custody.without()
	if err != nil {
		return err
	}
	switch owned := a.owner.owned(); {
	case owned && without:
		err = a.adoptAll(ctx)
	case !owned:
		err = a.giveBack(ctx, without)
	}
	if time.Since(a.tidied) < tidyEvery {
		return err
	}
	a.tidied = time.Now()
	return errors.Join(err, a.forgetEnded())
}

// adoptAll adopts all sandboxes that Multus has. One that cannot be adopted does not stop the
// others.
func (a *adopter) adoptAll(ctx context.Context) error {
	sandboxes, problems, err := a.custody.dir.Sandboxes()
	if err != nil {
		return err
	}
	adopted, networks := 0, 0
	for _, s := range sandboxes {
		done, err := a.adopt(operations.WithPod(ctx, s.Pod), s)
		if err != nil {
			problems = append(problems, multusstate.Problem{Sandbox: s.ID, Pod: s.Pod.String(), Error: err.Error()})
		}
		if done {
			adopted++
			networks += len(s.Attachments)
		}
	}
	a.reportProblems(ctx, problems)
	if adopted > 0 {
		a.report.adopted(ctx, adopted, networks)
	}
	return nil
}

// adopt adopts one sandbox, and reports whether it did. It leaves a sandbox for later that Multus
// has not attached completely and that still exists: the runtime removes it soon.
func (a *adopter) adopt(ctx context.Context, s multusstate.Sandbox) (bool, error) {
	if s.Pod.UID == "" && time.Since(s.Written) < begunLimit {
		return false, nil
	}
	taken := false
	err := a.operations.Do(ctx, changesHands(s.Pod, s.ID), func(ctx context.Context) error {
		recorded, err := a.record(ctx, s)
		if err != nil || !recorded {
			return err
		}
		if err := a.giveEth0(s); err != nil {
			return err
		}
		failpoint.Reach(failpoint.BeforeTake)
		taken, err = a.custody.dir.Take(s.ID)
		failpoint.Reach(failpoint.AfterTake)
		return err
	})
	return taken, err
}

// changesHands describes an operation of the adopter. It calls no plugin, and is left for the next
// look if another operation on the pod runs.
func changesHands(pod attachment.PodRef, sandboxID string) operations.Operation {
	return operations.Operation{Pod: pod, Sandbox: sandboxID, Limit: busyWait, Over: reason.Errorf(reason.DELUnfinished, "the pod is busy")}
}

// giveEth0 gives the entry of eth0 to the container runtime, without the default routes that Multus
// has replaced: CRI-O runs CHECK with it when it starts.
func (a *adopter) giveEth0(s multusstate.Sandbox) error {
	err := a.custody.dir.GiveEth0(s)
	if err == nil && slices.ContainsFunc(s.Attachments, func(at multusstate.Attachment) bool { return at.DefaultRoute != nil }) {
		err = a.attacher.ForgetDefaultRoutes(s.ID)
	}
	return err
}

// record records the attachments of a sandbox, and reports whether nadra has to run their DELs now.
// The caller holds the pod's lock.
func (a *adopter) record(ctx context.Context, s multusstate.Sandbox) (bool, error) {
	if slices.ContainsFunc(a.store.ForPod(s.Pod.UID), checkpoint.InSandbox(s.ID)) || s.Pod.UID == "" {
		return true, nil // an earlier look was interrupted, or there is nothing to delete
	}
	sandbox := attachment.Sandbox{ID: s.ID, NetNS: s.NetNS, Pod: s.Pod}
	ns, err := a.attacher.Netns.Inspect(s.NetNS)
	switch {
	case errors.Is(err, podns.ErrGone):
		return true, a.recordDELs(ctx, s, sandbox)
	case err != nil:
		return false, fmt.Errorf("adopting the networks of pod %s: %w", s.Pod, err)
	case !s.Complete():
		return false, nil
	}
	sandbox.Cookie = ns.Cookie
	if err := a.adoptions.Adopt(a.recordsOf(ctx, s, sandbox), sandbox); err != nil {
		return false, fmt.Errorf("adopting the networks of pod %s: %w", s.Pod, err)
	}
	for _, at := range s.Attachments {
		if !slices.Contains(ns.Links, at.Interface) {
			klog.FromContext(ctx).Info("Multus has attached a network whose interface the pod lacks", "network", at.Network, "interface", at.Interface)
		}
	}
	klog.FromContext(ctx).Info("Adopted a pod's networks from Multus", "sandbox", s.ID, "networks", len(s.Attachments))
	return true, nil
}

// recordDELs begins the DELs of a sandbox that is gone.
func (a *adopter) recordDELs(ctx context.Context, s multusstate.Sandbox, sandbox attachment.Sandbox) error {
	dels, err := a.adoptions.AdoptDELs(a.recordsOf(ctx, s, sandbox), sandbox, "Multus has not run it: the pod ended while the node changed hands")
	for _, r := range dels {
		a.attacher.PendingDELs.Begin(r)
	}
	return err
}

// recordsOf returns what is recorded of a sandbox's attachments.
func (a *adopter) recordsOf(ctx context.Context, s multusstate.Sandbox, sandbox attachment.Sandbox) []checkpoint.Adopted {
	out := make([]checkpoint.Adopted, len(s.Attachments))
	static, baseline := a.watch.isStatic(s.Pod), a.baseline(s.Pod)
	for i, at := range s.Attachments {
		info, err := a.attacher.Plugins.DeviceInfo(sandbox, at.Attachment)
		if err != nil {
			klog.FromContext(ctx).Info("An adopted network has no device information", "network", at.Network, "err", err)
		}
		out[i] = checkpoint.Adopted{
			Prepared: attachment.Prepared{Pod: s.Pod, Index: i, Request: at.Interface, Attachment: at.Attachment, Static: static},
			Baseline: baseline, Result: json.RawMessage(at.Result), DeviceInfo: info,
		}
	}
	return out
}

// baseline returns the annotation of a pod's networks, or nil if the pod is unknown.
func (a *adopter) baseline(ref attachment.PodRef) *string {
	pod := a.watch.Find(ref)
	if pod == nil {
		return nil
	}
	return ptr.To(attachment.NetworksText(pod.Annotations))
}

// reportProblems reports sandboxes that cannot be adopted, each once.
func (a *adopter) reportProblems(ctx context.Context, problems []multusstate.Problem) {
	reported := map[string]string{}
	for _, p := range problems {
		reported[p.Sandbox] = p.Error
		if a.reported[p.Sandbox] != p.Error {
			a.report.notAdopted(ctx, p)
		}
	}
	a.reported = reported
}

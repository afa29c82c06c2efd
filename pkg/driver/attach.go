package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// runner runs CNI plugins; cniexec.Runner outside of tests.
type runner interface {
	Add(ctx context.Context, s attachment.Sandbox, a attachment.Attachment) (*types100.Result, error)
	Del(ctx context.Context, s attachment.Sandbox, a attachment.Attachment) error
	Missing(types []string) []string
}

// attacher carries a pod's records through their phases by running plugins.
// The caller holds the pod's lock: the CNI specification forbids operations on
// one container in parallel.
type attacher struct {
	store  *checkpoint.Store
	runner runner
	// look tells what is in a sandbox's network namespace.
	look func(netns string) (namespace, error)
	// rollback is how long the DELs after a failed ADD may take.
	rollback time.Duration
}

// attach gives the sandbox all attachments of its pod, in order (behaviour
// A4-51). When one fails, those attempted are taken down in reverse and the
// error is returned; what could not be taken down stays owed in the records.
// What an earlier sandbox of the pod, or an attempt that was cut off, has left
// is deleted first.
func (a *attacher) attach(ctx context.Context, sandbox attachment.Sandbox) error {
	missing := a.lacking(sandbox)
	if err := a.detach(ctx, sandbox.Pod.UID, missing); err != nil {
		return fmt.Errorf("clearing an earlier sandbox: %w", err)
	}
	var todo []checkpoint.Record
	for _, r := range a.store.ForPod(sandbox.Pod.UID) {
		if missing(r) {
			todo = append(todo, r)
		}
	}
	if len(todo) == 0 {
		return nil
	}
	if sandbox.NetNS == "" {
		return hostNetworkError(sandbox.Pod, todo)
	}
	ns, err := a.look(sandbox.NetNS)
	if err == nil {
		err = checkNames(ns.links, todo)
	}
	if err != nil {
		return err
	}
	sandbox.Cookie = ns.cookie
	if err := a.store.MarkAttaching(keys(todo), sandbox); err != nil {
		return err
	}
	for i, r := range todo {
		if err := a.add(ctx, sandbox, r); err != nil {
			return errors.Join(err, a.rollBack(ctx, todo[:i+1], todo[i+1:]))
		}
	}
	return nil
}

// lacking reports which records are not attached in this very sandbox.
func (a *attacher) lacking(sandbox attachment.Sandbox) func(checkpoint.Record) bool {
	return func(r checkpoint.Record) bool {
		return r.Phase != checkpoint.Attached || r.Sandbox.ID != sandbox.ID || r.BootID != a.store.BootID()
	}
}

// checkNames refuses interface names that the sandbox has already. It comes
// before the records say that a DEL is owed: a DEL would remove an interface
// that is not ours, eth0 for one.
func checkNames(links []string, todo []checkpoint.Record) error {
	for _, r := range todo {
		if at := r.Attachment; slices.Contains(links, at.Interface) {
			return fmt.Errorf("adding network %s as %s: the pod has an interface of this name already: "+
				"ask for another one in the claim's interface field", at.Network, at.Interface)
		}
	}
	return nil
}

// add runs ADD for one record.
func (a *attacher) add(ctx context.Context, sandbox attachment.Sandbox, r checkpoint.Record) error {
	at := r.Attachment
	result, err := a.runner.Add(ctx, sandbox, at)
	if err != nil {
		return fmt.Errorf("adding network %s as %s: %w", at.Network, at.Interface, err)
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("encoding the result of network %s: %w", at.Network, err)
	}
	return a.store.MarkAttached(r.Key(), raw)
}

// rollBack takes down what was attempted and marks the untouched as such. It
// has its own time, as the hook's may be what ran out.
func (a *attacher) rollBack(ctx context.Context, attempted, untouched []checkpoint.Record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.rollback)
	defer cancel()
	var errs []error
	for _, r := range untouched {
		errs = append(errs, a.store.MarkDetached(r.Key()))
	}
	errs = append(errs, a.detach(ctx, attempted[0].Pod.UID, func(checkpoint.Record) bool { return true }))
	return errors.Join(errs...)
}

// detach runs the DELs that are owed for the pod's records that match, last
// attached first. One failure does not stop the others (behaviour A4-50).
func (a *attacher) detach(ctx context.Context, podUID string, match func(checkpoint.Record) bool) error {
	var errs []error
	for _, r := range slices.Backward(a.store.ForPod(podUID)) {
		if r.DELOwed() && match(r) {
			errs = append(errs, a.del(ctx, r))
		}
	}
	return errors.Join(errs...)
}

// del runs DEL for one record with the sandbox that its ADD was for.
func (a *attacher) del(ctx context.Context, r checkpoint.Record) error {
	sandbox := *r.Sandbox
	if r.BootID != a.store.BootID() {
		sandbox.NetNS = "" // of another life of this node; the path may be someone else's by now
	}
	if err := a.runner.Del(ctx, sandbox, r.Attachment); err != nil {
		return fmt.Errorf("deleting network %s from %s: %w", r.Attachment.Network, r.Attachment.Interface, err)
	}
	klog.FromContext(ctx).V(2).Info("Deleted attachment", "network", r.Attachment.Network, "interface", r.Attachment.Interface, "sandbox", sandbox.ID)
	return a.store.MarkDetached(r.Key())
}

// hostNetworkError explains why a pod with the host's network gets none.
func hostNetworkError(pod attachment.PodRef, todo []checkpoint.Record) error {
	at := todo[0].Attachment
	return fmt.Errorf("adding network %s as %s: pod %s/%s uses the host's network, which gets no attachments: "+
		"remove spec.hostNetwork or the claim %s", at.Network, at.Interface, pod.Namespace, pod.Name, todo[0].Claim.Name)
}

func keys(records []checkpoint.Record) []checkpoint.Key {
	out := make([]checkpoint.Key, len(records))
	for i, r := range records {
		out[i] = r.Key()
	}
	return out
}

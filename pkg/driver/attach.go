package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
)

const (
	// retryMin and retryMax bound the pause before the next attempt.
	retryMin = 200 * time.Millisecond
	retryMax = 5 * time.Second
	// rollbackTime bounds the DELs after an attach that failed. What it does
	// not suffice for stays owed.
	rollbackTime = 500 * time.Millisecond
)

// runner runs CNI plugins; cniexec.Runner outside of tests.
type runner interface {
	Add(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, before func() error) (*types100.Result, error)
	Del(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, result json.RawMessage) error
	Missing(types []string) []string
	DeviceInfo(s attachment.Sandbox, a attachment.Attachment) (json.RawMessage, error)
}

// attacher carries a pod's records through their phases by running plugins.
// The caller holds the pod's lock: the CNI specification forbids operations on
// one container in parallel.
type attacher struct {
	store  *checkpoint.Store
	runner runner
	// look tells what is in a sandbox's network namespace.
	look   func(netns string) (namespace, error)
	routes router
	// home gives functions of resource pools back to the host.
	home func(attachment.Hardware) error
	// limits bound one ADD and one DEL; a plugin that hangs is ended, and tried
	// again.
	limits limits
	// patience decides when a DEL that fails becomes a debt, and handedOver is
	// told then.
	patience   patience
	handedOver func(r checkpoint.Record, cause error)
	// statusWait has the gate wait for the pod's network-status.
	statusWait bool
	metrics    *metrics.Node
}

// again marks an error after which the same attempt may succeed.
type again struct{ error }

func (a again) Unwrap() error { return a.error }

// attach gives the sandbox all attachments of its pod, in order (behaviour
// A4-51). Failures that may pass are told to trouble and tried again until ctx
// ends; a failure for good, or the end, takes down in reverse what was
// attempted and is returned. What could not be taken down stays owed.
func (a *attacher) attach(ctx context.Context, sandbox attachment.Sandbox, trouble func(error)) error {
	for wait := retryMin; ; wait = min(2*wait, retryMax) {
		err := a.attempt(ctx, sandbox)
		if err == nil {
			return nil
		}
		if !errors.As(err, new(again)) {
			return errors.Join(err, a.rollBack(ctx, sandbox))
		}
		if ctx.Err() == nil {
			trouble(err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(err, cause) {
				err = fmt.Errorf("%w: %w", cause, err)
			}
			return errors.Join(err, a.rollBack(ctx, sandbox))
		}
	}
}

// attempt attaches what the sandbox lacks. What an earlier sandbox of the pod has
// left is deleted first, and so is all that the sandbox has when an attempt in it
// has failed: IPAM plugins may release by the sandbox alone (whereabouts 0.8
// does), so that a DEL of one network would free the addresses of the others.
func (a *attacher) attempt(ctx context.Context, sandbox attachment.Sandbox) error {
	if err := a.noteDevices(sandbox); err != nil {
		return again{err}
	}
	missing := a.lacking(sandbox)
	if slices.ContainsFunc(a.store.ForPod(sandbox.Pod.UID), func(r checkpoint.Record) bool {
		return missing(r) && r.DELOwed() && inSandbox(sandbox.ID)(r)
	}) {
		missing = func(r checkpoint.Record) bool { return !r.DeviceOnly }
	}
	if err := a.detach(ctx, sandbox.Pod.UID, missing); err != nil {
		return again{fmt.Errorf("clearing what was attached before: %w", err)}
	}
	todo := slices.DeleteFunc(a.store.ForPod(sandbox.Pod.UID), func(r checkpoint.Record) bool { return !missing(r) })
	if len(todo) == 0 {
		return nil
	}
	if sandbox.NetNS == "" {
		return hostNetworkError(sandbox.Pod, todo)
	}
	ns, err := a.look(sandbox.NetNS)
	if err == nil {
		err = a.checkNames(ns.links, todo, sandbox.ID)
	}
	if err != nil {
		return err
	}
	sandbox.Cookie = ns.cookie
	return a.addAll(ctx, sandbox, todo)
}

// addAll marks records attaching, while the first plugin's process starts, and
// runs ADD for them. What they come to is written once for all of them: a crash
// before that costs a DEL and an ADD more, while each write is one that every
// pod with many networks waits for.
func (a *attacher) addAll(ctx context.Context, sandbox attachment.Sandbox, todo []checkpoint.Record) error {
	added := make([]checkpoint.Added, 0, len(todo))
	var unmarked error
	mark := func() error {
		unmarked = a.store.MarkAttaching(keys(todo), sandbox)
		failpoint.Reach(failpoint.BeforeAdd)
		return unmarked
	}
	for i, r := range todo {
		started := time.Now()
		one, err := a.add(ctx, sandbox, r, todo[:i+1], mark)
		a.measureAdd(r, started, err)
		mark = nil
		if unmarked != nil {
			return again{err}
		}
		if err != nil {
			return errors.Join(err, a.store.MarkAttached(added...), a.store.MarkDetached(keys(todo[i+1:])...))
		}
		added = append(added, one)
	}
	if err := a.store.MarkAttached(added...); err != nil {
		return again{err}
	}
	return nil
}

// noteDevices notes in which sandbox the devices are that nothing is attached
// to, so that nobody else gets them while it runs.
func (a *attacher) noteDevices(sandbox attachment.Sandbox) error {
	devices := slices.DeleteFunc(a.store.ForPod(sandbox.Pod.UID), func(r checkpoint.Record) bool {
		return !r.DeviceOnly || r.Sandbox != nil && r.Sandbox.ID == sandbox.ID && r.BootID == a.store.BootID()
	})
	if len(devices) == 0 || sandbox.NetNS == "" {
		return nil
	}
	ns, err := a.look(sandbox.NetNS)
	if err != nil {
		return err
	}
	sandbox.Cookie = ns.cookie
	return a.store.MarkGiven(keys(devices), sandbox)
}

// networksIn drops the records of devices that nothing is attached to.
func networksIn(records []checkpoint.Record) []checkpoint.Record {
	return slices.DeleteFunc(slices.Clone(records), func(r checkpoint.Record) bool { return r.DeviceOnly })
}

// lacking reports which records are not attached in this very sandbox. Devices
// to which nothing is attached lack nothing.
func (a *attacher) lacking(sandbox attachment.Sandbox) func(checkpoint.Record) bool {
	return func(r checkpoint.Record) bool {
		return !r.DeviceOnly && (r.Phase != checkpoint.Attached || r.Sandbox.ID != sandbox.ID || r.BootID != a.store.BootID())
	}
}

// checkNames refuses interface names that the sandbox has already. It comes
// before the records say that a DEL is owed: a DEL would remove an interface
// that is not ours, eth0 for one. Where it is ours, of an attempt whose DEL was
// given up for now, only that DEL's reason helps.
func (a *attacher) checkNames(links []string, todo []checkpoint.Record, sandboxID string) error {
	i := slices.IndexFunc(todo, func(r checkpoint.Record) bool { return slices.Contains(links, r.Attachment.Interface) })
	if i < 0 {
		return nil
	}
	at := todo[i].Attachment
	for _, d := range a.store.Debts() {
		if inSandbox(sandboxID)(d.Record) && d.Record.Attachment.Interface == at.Interface {
			return fmt.Errorf("adding network %s as %s: the pod still has the interface of an attempt before, whose DEL fails and is tried on: %s",
				at.Network, at.Interface, d.Cause)
		}
	}
	return fmt.Errorf("adding network %s as %s: the pod has an interface of this name already: "+
		"ask for another one in the claim's interface field", at.Network, at.Interface)
}

// add runs ADD for one record, and what is to be done before. made are those of
// the same attempt up to it.
func (a *attacher) add(ctx context.Context, sandbox attachment.Sandbox, r checkpoint.Record, made []checkpoint.Record, before func() error) (checkpoint.Added, error) {
	none := checkpoint.Added{}
	at := r.Attachment
	limit := a.limits.of(at).add
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("one ADD may take %s", limit))
	defer cancel()
	result, err := a.runner.Add(ctx, sandbox, at, before)
	failpoint.Reach(failpoint.AfterAdd)
	if err != nil {
		transient := cniexec.Transient(err)
		err = fmt.Errorf("adding network %s as %s: %w", at.Network, at.Interface, err)
		if transient {
			return none, again{err}
		}
		return none, err
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return none, fmt.Errorf("encoding the result of network %s: %w", at.Network, err)
	}
	if err := a.moveDefaultRoute(sandbox, made); err != nil {
		return none, fmt.Errorf("adding network %s as %s: %w", at.Network, at.Interface, err)
	}
	return checkpoint.Added{Key: r.Key(), Result: raw, DeviceInfo: a.deviceInfo(ctx, sandbox, r), StatusStored: !a.statusWait}, nil
}

// deviceInfo is what the plugins have told of the device, or else what is known
// of it. It is told on and of no use to the pod's networks: without it the
// attachment is no worse.
func (a *attacher) deviceInfo(ctx context.Context, sandbox attachment.Sandbox, r checkpoint.Record) json.RawMessage {
	info, err := a.runner.DeviceInfo(sandbox, r.Attachment)
	if len(info) == 0 && r.Hardware != nil {
		info = r.Hardware.DeviceInfo
	}
	if err != nil {
		logOf(ctx, r).Info("No device information in network-status", "reason", err.Error())
	}
	return info
}

// rollBack takes down what was attempted in the sandbox. It has its own time,
// as the attach's may be what ran out.
func (a *attacher) rollBack(ctx context.Context, sandbox attachment.Sandbox) error {
	limit := a.limits.rollback(a.store.ForPod(sandbox.Pod.UID))
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), limit, errors.New("the time for taking down is over"))
	defer cancel()
	attached := slices.DeleteFunc(a.store.ForPod(sandbox.Pod.UID), func(r checkpoint.Record) bool {
		return r.Phase != checkpoint.Attached || !inSandbox(sandbox.ID)(r)
	})
	// The sandbox lives on. Should a record say that it has a network whose DEL was
	// done, as the disk was full then, the pod would run without that network.
	if len(attached) > 0 {
		if err := a.store.MarkDetaching(keys(attached)...); err != nil {
			return fmt.Errorf("leaving attached what is: %w", err)
		}
	}
	return a.detach(ctx, sandbox.Pod.UID, inSandbox(sandbox.ID))
}

// inSandbox matches the records whose attachment is, or was begun, in a sandbox.
func inSandbox(id string) func(checkpoint.Record) bool {
	return func(r checkpoint.Record) bool { return r.Sandbox != nil && r.Sandbox.ID == id }
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

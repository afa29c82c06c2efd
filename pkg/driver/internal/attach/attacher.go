package attach

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"github.com/vishvananda/netns"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/internal/podnet"
	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
)

// Plugins runs CNI plugins. It is an operations.Group outside of tests.
type Plugins interface {
	Add(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, before func() error) (cniexec.Added, error)
	Del(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, result json.RawMessage) error
	DeviceInfo(s attachment.Sandbox, a attachment.Attachment) (json.RawMessage, error)
	// Forget removes what libcni keeps of an attachment that somebody else deletes.
	Forget(s attachment.Sandbox, a attachment.Attachment) error
	// Foreign returns what other runtimes have attached in a sandbox.
	Foreign(sandboxID string) ([]attachment.Attachment, error)
}

// Netns reads and changes the network namespaces of sandboxes. It is a podnet.Reader
// outside of tests.
type Netns interface {
	Inspect(netns string) (podnet.Namespace, error)
	// Look also returns the addresses.
	Look(netns string) (podnet.State, error)
	// Open opens a network namespace, which exists until it is closed.
	Open(netns string) (netns.NsHandle, error)
	// DefaultRoutes returns the default routes of the main table, of both families.
	DefaultRoutes(netns string) ([]checkpoint.Route, error)
	// Reroute removes routes and then adds others. It ignores routes that are gone, or
	// there, already.
	Reroute(netns string, remove, add []checkpoint.Route) error
}

// Options has what an Attacher needs. All fields are required.
type Options struct {
	Store   *checkpoint.Store
	Plugins Plugins
	Netns   Netns
	// Renew returns an attachment with its network's present configuration.
	Renew func(attachment.Attachment) (attachment.Attachment, error)
	// RestoreDevice makes a device of a resource pool what it was before the pod.
	RestoreDevice func(attachment.Hardware) error
	// ForgetDefaultRoutes is called when a sandbox's default routes have moved, so that the
	// container runtime does not miss them.
	ForgetDefaultRoutes func(sandboxID string) error
	Limits              operations.Limits
	// Operations runs pending DELs.
	Operations *operations.Group
	// Ours reports whether the DELs of a sandbox that Multus has attached are nadra's to run.
	// Otherwise Multus runs them.
	Ours func(sandboxID string) (bool, error)
	// Deferred reports that a failing DEL becomes a pending DEL.
	Deferred func(r checkpoint.Record, cause error)
	// Added is called after each ADD with the records that the sandbox has got so far, which
	// have their results; the last one is new, and got its addresses at the time allocated.
	// more is true if ADDs of further networks follow.
	Added   func(s attachment.Sandbox, records []checkpoint.Record, allocated time.Time, more bool)
	Metrics *metrics.Node
}

// Attacher moves a pod's records through their phases by running plugins. The caller's operation
// holds the pod's lock: the CNI specification forbids concurrent operations on one container.
type Attacher struct {
	Options
	// PendingDELs retries the DELs that have failed too often.
	PendingDELs *DelRetrier
	failures    delFailures
}

// New returns an Attacher.
func New(o Options) *Attacher {
	a := &Attacher{Options: o}
	a.PendingDELs = newDelRetrier(a)
	return a
}

// transient marks an error after which a retry may succeed.
type transient struct{ error }

func (t transient) Unwrap() error { return t.error }

// Attach gives the sandbox all attachments of its pod, in order (behaviour A4-51). It tries again until
// ctx ends, or failed returns false, which is told why a try has failed and whether the cause may pass by
// itself. Then it deletes in reverse order what it has begun, and returns the error. A DEL that fails then
// stays in its record.
func (a *Attacher) Attach(ctx context.Context, sandbox attachment.Sandbox, failed func(err error, passing bool) (again bool)) error {
	pauses := backoff
	for {
		err := a.try(ctx, sandbox)
		if err == nil {
			return nil
		}
		passing := errors.As(err, new(transient))
		if (ctx.Err() == nil || !passing) && !failed(err, passing) {
			return errors.Join(err, a.rollBack(ctx, sandbox))
		}
		if !background.Sleep(ctx, pauses.Step()) {
			if cause := context.Cause(ctx); !errors.Is(err, cause) {
				err = fmt.Errorf("%w: %w", cause, err)
			}
			return errors.Join(err, a.rollBack(ctx, sandbox))
		}
	}
}

// try adds the attachments that the sandbox lacks. Before that it deletes what an earlier
// sandbox of the pod has left. If a try has failed in this sandbox, it deletes everything
// in the sandbox: IPAM plugins may release addresses by the sandbox alone (whereabouts 0.8
// does), so that the DEL of one network frees the addresses of the others. What an edit of the
// pod's annotation has added is deleted with them, and added again by AddLive.
func (a *Attacher) try(ctx context.Context, sandbox attachment.Sandbox) error {
	if err := a.recordDevices(sandbox); err != nil {
		return transient{err}
	}
	missing, inSandbox := a.Missing(sandbox), checkpoint.InSandbox(sandbox.ID)
	stale := func(r checkpoint.Record) bool { return missing(r) || !inSandbox(r) }
	if slices.ContainsFunc(a.Store.ForPod(sandbox.Pod.UID), func(r checkpoint.Record) bool {
		return missing(r) && r.NeedsDEL() && inSandbox(r)
	}) {
		missing = func(r checkpoint.Record) bool { return r.Awaited(sandbox.ID) }
		stale = func(checkpoint.Record) bool { return true }
	}
	if err := a.Detach(ctx, sandbox.Pod.UID, stale); err != nil {
		return transient{reason.Errorf(reason.PendingDEL, "clearing what was attached before: %w", err)}
	}
	todo := checkpoint.Where(a.Store.ForPod(sandbox.Pod.UID), missing)
	if len(todo) == 0 {
		return nil
	}
	sandbox, err := a.mayAdd(sandbox, todo)
	if err != nil {
		return err
	}
	return a.addAll(ctx, sandbox, todo)
}

// renew gives records that need no DEL the present configuration of their networks: what was corrected since
// Prepare, or since the latest try, reaches pods that wait. It returns what has changed.
func renew(todo []checkpoint.Record, present func(attachment.Attachment) (attachment.Attachment, error)) (changed map[checkpoint.Key]attachment.Attachment, err error) {
	changed = map[checkpoint.Key]attachment.Attachment{}
	for i, r := range todo {
		now, err := present(r.Attachment)
		if err != nil {
			return nil, &networkError{r, err}
		}
		if !attachment.SameJSON(now.Conflist, r.Attachment.Conflist) {
			changed[r.Key()], todo[i].Attachment = now, now
		}
	}
	return changed, nil
}

// mayAdd checks that ADDs may begin, and returns the sandbox with the cookie of its namespace.
func (a *Attacher) mayAdd(sandbox attachment.Sandbox, todo []checkpoint.Record) (attachment.Sandbox, error) {
	if sandbox.NetNS == "" {
		return sandbox, NoNamespaceError(sandbox, todo)
	}
	pending := a.Store.PendingDELs()
	if err := tooManyPending(pending, sandbox.Pod); err != nil {
		return sandbox, transient{err}
	}
	ns, err := a.Netns.Inspect(sandbox.NetNS)
	if err == nil {
		err = checkNames(ns.Links, pending, todo, sandbox.ID)
	}
	sandbox.Cookie = ns.Cookie
	return sandbox, err
}

// backoff has the pauses before another try to attach.
var backoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Cap: 5 * time.Second, Steps: math.MaxInt}

// RollbackTime is the time in which the DELs after a failed attach begin. One that does not stays
// in its record.
const RollbackTime = 500 * time.Millisecond

// networkError is the failure of one of a pod's networks, because of which the pod has none.
type networkError struct {
	record checkpoint.Record
	error
}

// Unwrap returns the network's own error.
func (e *networkError) Unwrap() error { return e.error }

// FailedIn returns the attachment because of which a pod is not attached. It returns false if there is none.
func FailedIn(err error) (a attachment.Attachment, ok bool) {
	var failed *networkError
	if !errors.As(err, &failed) {
		return a, false
	}
	return failed.record.Attachment, true
}

// ErrorOf returns why a record's network is not attached, given why its pod is not. It is that
// error, unless another network of the pod fails, which it then names with its error.
func ErrorOf(r checkpoint.Record, err error) error {
	var failed *networkError
	if !errors.As(err, &failed) || failed.record.Key() == r.Key() {
		return err
	}
	at := failed.record.Attachment
	return reason.Errorf(reason.OtherNetworkFailed, "network %s as %s fails: %w", at.Network, at.Interface, failed.error)
}

// addAll runs ADD for records, with the present configuration of their networks. It marks them attaching while the first plugin's process
// starts, and records all results with one write, because every pod with many networks
// waits for each write. A crash before that write costs one DEL and one ADD more.
func (a *Attacher) addAll(ctx context.Context, sandbox attachment.Sandbox, todo []checkpoint.Record) error {
	renewed, err := renew(todo, a.Renew)
	if err != nil {
		return err
	}
	started := time.Now()
	if err := a.awaitInPod(ctx, sandbox, todo); err != nil {
		return err
	}
	added := make([]checkpoint.Added, 0, len(todo))
	var markErr error
	mark := func() error {
		markErr = a.Store.MarkAttaching(checkpoint.Keys(todo), sandbox, renewed)
		failpoint.Reach(failpoint.BeforeAdd)
		return markErr
	}
	for i, r := range todo {
		one, allocated, err := a.add(ctx, sandbox, r, todo[:i+1], mark)
		a.measureAdd(r, started, err)
		mark, started = nil, time.Now()
		if markErr != nil {
			return transient{err}
		}
		if err != nil {
			err = &networkError{r, err}
			return errors.Join(err, a.Store.MarkAttached(added...), a.Store.MarkDetached(checkpoint.Keys(todo[i+1:])...))
		}
		added = append(added, one)
		todo[i].Result, todo[i].DeviceInfo = one.Result, one.DeviceInfo
		a.Added(sandbox, todo[:i+1:i+1], allocated, i+1 < len(todo))
	}
	if wrong, err := settle(ctx, a.Netns, sandbox.NetNS, todo); err != nil {
		// The network that is wrong needs a DEL, and is not attached.
		added = slices.DeleteFunc(added, func(one checkpoint.Added) bool { return one.Key == wrong })
		return errors.Join(err, a.Store.MarkAttached(added...))
	}
	if err := a.Store.MarkAttached(added...); err != nil {
		return transient{err}
	}
	return nil
}

// recordDevices records the sandbox that has the pod's devices without a network, so that
// no other pod gets them while it runs.
func (a *Attacher) recordDevices(sandbox attachment.Sandbox) error {
	devices := slices.DeleteFunc(a.Store.ForPod(sandbox.Pod.UID), func(r checkpoint.Record) bool {
		return !r.DeviceOnly || r.Sandbox != nil && r.Sandbox.ID == sandbox.ID && r.BootID == a.Store.BootID()
	})
	if len(devices) == 0 || sandbox.Unspecified {
		return nil
	}
	if sandbox.NetNS != "" {
		ns, err := a.Netns.Inspect(sandbox.NetNS)
		if err != nil {
			return err
		}
		sandbox.Cookie = ns.Cookie
	}
	return a.Store.MarkDeviceInUse(checkpoint.Keys(devices), sandbox)
}

// Missing returns a function that reports whether a record for which the containers of this
// very sandbox wait is not attached in it.
func (a *Attacher) Missing(sandbox attachment.Sandbox) func(checkpoint.Record) bool {
	return func(r checkpoint.Record) bool { return r.Awaited(sandbox.ID) && !a.AttachedIn(sandbox)(r) }
}

// AttachedIn returns a function that reports whether a record is attached in this very sandbox.
func (a *Attacher) AttachedIn(sandbox attachment.Sandbox) func(checkpoint.Record) bool {
	return func(r checkpoint.Record) bool {
		return r.Phase == checkpoint.Attached && r.Sandbox.ID == sandbox.ID && r.BootID == a.Store.BootID()
	}
}

// add runs ADD for one record after calling before, and returns when the network got its
// addresses. begun are the records of the same try up to this one.
func (a *Attacher) add(ctx context.Context, sandbox attachment.Sandbox, r checkpoint.Record, begun []checkpoint.Record, before func() error) (one checkpoint.Added, allocated time.Time, err error) {
	at := r.Attachment
	made, err := a.Plugins.Add(ctx, sandbox, at, before)
	failpoint.Reach(failpoint.AfterAdd)
	if err != nil {
		passing := cniexec.Transient(err)
		if at.On != nil {
			err = fmt.Errorf("on %s: %w", at.On, err)
		}
		err = reason.Wrap(reason.PluginFailed, fmt.Errorf("adding network %s as %s: %w", at.Network, at.Interface, err))
		if passing {
			return one, allocated, transient{err}
		}
		return one, allocated, err
	}
	raw, err := json.Marshal(made.Result)
	if err != nil {
		return one, allocated, fmt.Errorf("encoding the result of network %s: %w", at.Network, err)
	}
	if err := a.moveDefaultRoute(sandbox, begun); err != nil {
		return one, allocated, fmt.Errorf("adding network %s as %s: %w", at.Network, at.Interface, err)
	}
	// The API server, which stores network-status, may need the static pod.
	one = checkpoint.Added{Key: r.Key(), Result: raw, DeviceInfo: a.deviceInfo(ctx, sandbox, r), StatusStored: r.Static, Plugins: made.Plugins}
	return one, made.Allocated, nil
}

// inPodTime limits the wait for the interfaces that other drivers move into a pod, by their own hooks at about
// the same time.
const inPodTime = 10 * time.Second

// inPodPauses are the pauses between two looks at the pod's interfaces.
var inPodPauses = wait.Backoff{Duration: 10 * time.Millisecond, Factor: 1.5, Cap: 500 * time.Millisecond, Steps: math.MaxInt}

// awaitInPod waits until the pod has the interfaces on which networks run, and which other drivers move there. The first
// network's ADD includes the wait. An interface of an earlier network is none of them: it has no device. When they are
// there awaitInPod looks again whether the networks' names are free, because a driver may move other interfaces, too.
func (a *Attacher) awaitInPod(ctx context.Context, sandbox attachment.Sandbox, all []checkpoint.Record) error {
	todo := checkpoint.Where(all, func(r checkpoint.Record) bool { return r.Attachment.NeedsInPod() != "" })
	if len(todo) == 0 {
		return nil
	}
	started, missing := time.Now(), todo[0]
	var links []string
	var unread error
	ctx, cancel := context.WithTimeoutCause(ctx, inPodTime, fmt.Errorf("nadra has waited %s", inPodTime))
	defer cancel()
	err := inPodPauses.DelayFunc().Until(ctx, true, true, func(context.Context) (there bool, err error) {
		ns, err := a.Netns.Inspect(sandbox.NetNS)
		if errors.Is(err, podns.ErrGone) {
			return false, err
		}
		links, unread = ns.Links, err // the kernel may interrupt a dump while a driver moves links
		i := slices.IndexFunc(todo, func(r checkpoint.Record) bool { return !slices.Contains(links, r.Attachment.NeedsInPod()) })
		if i >= 0 {
			missing = todo[i]
		}
		return i < 0, nil
	})
	if err == nil {
		return checkNames(links, a.Store.PendingDELs(), all, sandbox.ID)
	}
	if at := missing.Attachment; wait.Interrupted(err) {
		err = transient{reason.Errorf(reason.DeviceNotInPod, "adding network %s as %s: driver %s has not moved device %s into the pod, which has no interface %s: "+
			"see the driver's log, and whether the NAD's master is the interface's name in the pod: %w", at.Network, at.Interface, at.On.Driver, at.On.Device, at.NeedsInPod(), errors.Join(context.Cause(ctx), unread))}
	}
	a.measureAdd(missing, started, err)
	return &networkError{missing, err}
}

// deviceInfo returns the plugins' device information, or what the resource pool or the driver of the device knows. It
// is only passed on to network-status, so errors are logged, not returned.
func (a *Attacher) deviceInfo(ctx context.Context, sandbox attachment.Sandbox, r checkpoint.Record) json.RawMessage {
	info, err := a.Plugins.DeviceInfo(sandbox, r.Attachment)
	if len(info) == 0 && r.Hardware != nil {
		info = r.Hardware.DeviceInfo
	}
	if other := cmp.Or(r.Attachment.On, r.OfPool); len(info) == 0 && other != nil && other.PCIAddress != "" {
		var failed error
		info, failed = json.Marshal(nadv1.DeviceInfo{
			Type: nadv1.DeviceInfoTypePCI, Version: nadv1.DeviceInfoVersion, Pci: &nadv1.PciDevice{PciAddress: other.PCIAddress},
		})
		err = errors.Join(err, failed)
	}
	if err != nil {
		operations.LoggerOf(ctx, r).Info("network-status has no device information", "err", err)
	}
	return info
}

// rollBack deletes what was begun in the sandbox.
func (a *Attacher) rollBack(ctx context.Context, sandbox attachment.Sandbox) error {
	attached := checkpoint.Where(a.Store.ForPod(sandbox.Pod.UID), func(r checkpoint.Record) bool {
		return r.Phase == checkpoint.Attached && checkpoint.InSandbox(sandbox.ID)(r)
	})
	// The sandbox lives on. If its DELs succeeded and the full disk kept the records
	// attached, the pod would run without these networks.
	if len(attached) > 0 {
		if err := a.Store.MarkDetaching(checkpoint.Keys(attached)...); err != nil {
			return fmt.Errorf("recording the rollback: %w", err)
		}
	}
	return a.undo(ctx, sandbox.Pod.UID, checkpoint.InSandbox(sandbox.ID))
}

// undo runs the DELs after a failed attach. It has a time limit of its own, because that of the attach may have
// passed. When the driver stops it begins none, because one that hangs would leave the node without a driver:
// the next driver's try begins with them.
func (a *Attacher) undo(ctx context.Context, podUID string, match func(checkpoint.Record) bool) error {
	if a.Operations.Context().Err() != nil {
		return reason.Errorf(reason.DELUnfinished, "the driver stops: the next one deletes what was begun")
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), RollbackTime, reason.Errorf(reason.DELUnfinished, "the time for the rollback is over"))
	defer cancel()
	return a.Detach(ctx, podUID, match)
}

// NoNamespaceError returns why a sandbox without a network namespace gets no attachments:
// its pod uses the host's network, or the runtime does not know the namespace any more.
func NoNamespaceError(sandbox attachment.Sandbox, missing []checkpoint.Record) error {
	at := missing[0].Attachment
	if sandbox.Unspecified {
		return reason.Errorf(reason.SandboxUnspecified, "adding network %s as %s: the container runtime names no namespaces for sandbox %.12s of pod %s: "+
			"it has lost the sandbox's specification, as containerd does when it is killed while it makes one; delete the pod",
			at.Network, at.Interface, sandbox.ID, sandbox.Pod)
	}
	return reason.Errorf(reason.HostNetwork, "adding network %s as %s: pod %s uses the host's network, which gets no attachments: "+
		"remove spec.hostNetwork or the claim %s", at.Network, at.Interface, sandbox.Pod, missing[0].Claim.Name)
}

// measureAdd counts an ADD.
func (a *Attacher) measureAdd(r checkpoint.Record, started time.Time, err error) {
	at := &r.Attachment
	meters := a.Metrics.Network(at.Network.Namespace, at.Network.Name, at.Conflist)
	meters.Added(time.Since(started), err, err != nil && errors.As(err, new(transient)))
}

// AddLive attaches one record in a sandbox whose containers may run. If that fails, it deletes
// what it has begun for this record, and leaves the sandbox's other attachments alone. A DEL
// that fails then stays in the record.
func (a *Attacher) AddLive(ctx context.Context, sandbox attachment.Sandbox, r checkpoint.Record) error {
	sandbox, err := a.mayAdd(sandbox, []checkpoint.Record{r})
	if err != nil {
		return err
	}
	if err := a.addAll(ctx, sandbox, []checkpoint.Record{r}); err != nil {
		return errors.Join(err, a.undo(ctx, sandbox.Pod.UID, func(other checkpoint.Record) bool { return other.Key() == r.Key() }))
	}
	return nil
}

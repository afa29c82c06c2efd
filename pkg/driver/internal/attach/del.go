package attach

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netns"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
)

// A DEL that has failed this often, for at least this long, becomes a pending DEL. The
// deletion of a pod, and its next sandbox, wait no longer than about that.
const (
	deferAfterFailures = 3
	deferAfterTime     = 20 * time.Second
)

// Detach runs the DELs of the pod's records that match.
func (a *Attacher) Detach(ctx context.Context, podUID string, match func(checkpoint.Record) bool) error {
	return a.detach(ctx, podUID, match, dels{kept: Kept{}})
}

// DetachSandbox runs the DELs of a sandbox that ends, in its namespace if that was kept before, which
// it closes.
func (a *Attacher) DetachSandbox(ctx context.Context, podUID, sandboxID string, kept Kept) error {
	return a.detach(ctx, podUID, checkpoint.InSandbox(sandboxID), dels{kept: kept, ends: true})
}

func (a *Attacher) detach(ctx context.Context, podUID string, match func(checkpoint.Record) bool, how dels) error {
	done, err := a.delAll(ctx, a.Store.ForPod(podUID), match, how)
	if len(done) > 0 {
		err = errors.Join(err, a.Store.MarkDetached(done...))
	}
	return err
}

// DetachClaim runs the DELs of one claim of a pod and then deletes its records. If all DELs succeed it
// records nothing in between, so that a full disk keeps no pod from being deleted.
func (a *Attacher) DetachClaim(ctx context.Context, podUID, claimUID string) error {
	wanted := func(r checkpoint.Record) bool {
		return r.FileUID() == claimUID && r.Pod.UID == podUID && !failpoint.Off(failpoint.UnprepareDEL)
	}
	done, err := a.delAll(ctx, a.Store.ForClaim(claimUID), wanted, dels{kept: Kept{}})
	if err != nil {
		return errors.Join(err, a.Store.MarkDetached(done...))
	}
	return a.Store.DeleteClaim(claimUID, podUID)
}

// dels is how DELs are run.
type dels struct {
	// kept has the namespaces that are open.
	kept Kept
	// ends is true if everything in the sandbox ends, whoever has attached it.
	ends bool
}

// delAll runs the DELs of the records that need one and match, the last attached first. It
// returns the keys of the records whose DEL has succeeded. A failure does not stop the
// other DELs (behaviour A4-50). When ctx ends it begins no further DEL. A DEL that would harm
// another network of a running pod becomes a pending DEL.
func (a *Attacher) delAll(ctx context.Context, records []checkpoint.Record, match func(checkpoint.Record) bool, how dels) (done []checkpoint.Key, err error) {
	var errs []error
	defer how.kept.Close()
	for _, r := range slices.Backward(records) {
		if !r.NeedsDEL() || !match(r) {
			continue
		}
		if ctx.Err() != nil {
			errs = append(errs, reason.Errorf(reason.DELUnfinished, "network %s is not deleted from %s yet: %w", r.Attachment.Network, r.Attachment.Interface, context.Cause(ctx)))
			continue
		}
		if _, known := how.kept[r.Sandbox.ID]; !known {
			how.kept[r.Sandbox.ID] = a.keep(r)
		}
		ns := how.kept[r.Sandbox.ID]
		if ns.alive && !how.ends {
			if harm := a.harm(r, match); harm != nil {
				errs = append(errs, a.deferDEL(r, harm))
				continue
			}
		}
		switch succeeded, err := a.del(ctx, r, ns); {
		case err != nil:
			errs = append(errs, err)
		case succeeded:
			done = append(done, r.Key())
		}
	}
	return done, errors.Join(errs...)
}

// del runs DEL for one record. After too many failures it makes a pending DEL of the
// record and returns no error, but succeeded is false: nothing is left to record.
func (a *Attacher) del(ctx context.Context, r checkpoint.Record, ns namespace) (succeeded bool, err error) {
	err = a.runDel(ctx, r, ns)
	if err == nil {
		a.failures.forget(r)
		return true, nil
	}
	if errors.Is(err, operations.ErrNotBegun) || !a.failures.enough(r, time.Now()) {
		return false, err
	}
	return false, a.deferDEL(r, err)
}

// deferDEL makes a pending DEL of a record.
func (a *Attacher) deferDEL(r checkpoint.Record, cause error) error {
	err := a.Store.DeferDEL(r.Key(), cause)
	a.PendingDELs.add(r) // also after an error: the pending DEL may be there
	if err != nil {
		return errors.Join(cause, err)
	}
	a.failures.forget(r)
	a.Deferred(r, cause)
	return nil
}

// Harm returns why the DEL of one attached record, in a sandbox that lives on, must not be run, or
// nil.
func (a *Attacher) Harm(r checkpoint.Record) error {
	return a.harm(r, func(other checkpoint.Record) bool { return other.Key() == r.Key() })
}

// harm returns why the DEL of a record must wait for the end of its sandbox, which lives: it may
// release what another network of the sandbox has, of nadra's or of another runtime's. deleted
// reports which records are deleted with it.
func (a *Attacher) harm(r checkpoint.Record, deleted func(checkpoint.Record) bool) error {
	var stay []attachment.Attachment
	known := map[string]bool{r.Attachment.Interface: true}
	for _, other := range a.Store.ForPod(r.Pod.UID) {
		known[other.Attachment.Interface] = true
		if other.NeedsDEL() && checkpoint.InSandbox(r.Sandbox.ID)(other) && !deleted(other) {
			stay = append(stay, other.Attachment)
		}
	}
	if r.Attachment.UsesIPAM(attachment.Whereabouts) {
		foreign, err := a.Plugins.Foreign(r.Sandbox.ID)
		if err != nil {
			return reason.Errorf(reason.PendingDEL, "deleting network %s from %s: it is unknown what other runtimes have attached: %w", r.Attachment.Network, r.Attachment.Interface, err)
		}
		// Another runtime may still list what nadra has adopted.
		stay = append(stay, slices.DeleteFunc(foreign, func(f attachment.Attachment) bool { return known[f.Interface] })...)
	}
	held := r.Attachment.Held()
	i := slices.IndexFunc(stay, func(other attachment.Attachment) bool { return held.MayRelease(other.Held()) })
	if i < 0 {
		return nil
	}
	return reason.Errorf(reason.PendingDEL, "deleting network %s from %s waits for the end of the sandbox: the DEL may release what the pod has as %s (network %s)",
		r.Attachment.Network, r.Attachment.Interface, stay[i].Interface, cmp.Or(stay[i].Network.String(), stay[i].CNIName))
}

// runDel runs the plugins' DEL for one record, restores what the attachment has displaced,
// and gives its device back to the host.
func (a *Attacher) runDel(ctx context.Context, r checkpoint.Record, ns namespace) (err error) {
	defer a.measureDel(r, time.Now(), &err)
	if r.Adopted {
		if ours, err := a.Ours(r.Sandbox.ID); err != nil || !ours {
			return err
		}
	}
	sandbox := *r.Sandbox
	sandbox.NetNSFD = ns.fd()
	if !ns.alive {
		sandbox.NetNS = "" // another namespace may have this path by now
	}
	failpoint.Reach(failpoint.BeforeDel)
	err = a.Plugins.Del(ctx, sandbox, r.Attachment, r.Result)
	failpoint.Reach(failpoint.AfterDel)
	if err == nil && len(r.Displaced) > 0 && sandbox.NetNS != "" {
		err = a.restoreDefaultRoutes(r)
	}
	if err == nil && r.Hardware != nil {
		err = a.RestoreDevice(*r.Hardware)
	}
	if err != nil {
		return reason.Errorf(reason.DELFailed, "deleting network %s from %s: %w", r.Attachment.Network, r.Attachment.Interface, err)
	}
	operations.LoggerOf(ctx, r).V(2).Info("Deleted attachment", "sandbox", sandbox.ID)
	return nil
}

// namespace is the network namespace of a sandbox while its DELs run. The runtime waits
// for them only so long before it removes the namespace (--hook-budget); kept open, it
// exists until they have ended.
type namespace struct {
	alive bool
	// kept is open only if the namespace is alive and could be opened.
	kept netns.NsHandle
}

// Kept has the network namespaces of sandboxes by their IDs. One that is gone does not come back.
type Kept map[string]namespace

// Close closes the namespaces.
func (k Kept) Close() {
	for _, ns := range k {
		ns.close()
	}
	clear(k)
}

// Keep keeps the network namespace of a sandbox for DELs that begin later: the runtime may remove it
// before.
func (a *Attacher) Keep(podUID, sandboxID string) Kept {
	records := a.Store.ForPod(podUID)
	i := slices.IndexFunc(records, func(r checkpoint.Record) bool { return r.NeedsDEL() && r.Sandbox.ID == sandboxID })
	if i < 0 {
		return Kept{}
	}
	return Kept{sandboxID: a.keep(records[i])}
}

// keep opens the network namespace of a record's sandbox. It opens the namespace before it
// compares the cookie, so that another namespace of the same path is never used.
func (a *Attacher) keep(r checkpoint.Record) namespace {
	ns, err := a.Netns.Open(r.Sandbox.NetNS)
	if err != nil {
		ns = netns.None()
	}
	out := namespace{alive: a.SandboxAlive(r), kept: ns}
	if !out.alive {
		out.close()
		out.kept = netns.None()
	}
	return out
}

func (n namespace) fd() int { return max(int(n.kept), 0) }

func (n namespace) close() {
	if n.kept.IsOpen() {
		n.kept.Close()
	}
}

// SandboxAlive reports whether the network namespace of a record's sandbox still exists:
// its path, in this boot of the node, with the same cookie. If that cannot be found out,
// it reports true, because nobody may take an address from a running pod.
func (a *Attacher) SandboxAlive(r checkpoint.Record) bool {
	if r.Sandbox == nil || r.Sandbox.NetNS == "" || r.BootID != a.Store.BootID() {
		return false
	}
	ns, err := a.Netns.Inspect(r.Sandbox.NetNS)
	if err != nil && ns.Cookie == 0 {
		return !errors.Is(err, podns.ErrGone) && !errors.Is(err, podns.ErrHost)
	}
	return ns.Cookie == r.Sandbox.Cookie
}

// delFailures counts the failures of each DEL since the driver was started.
type delFailures struct {
	mu    sync.Mutex
	byDEL map[string]delFailure
}

type delFailure struct {
	count int
	since time.Time
}

// enough adds a failure and reports whether the DEL has failed often and long enough to
// be deferred.
func (f *delFailures) enough(r checkpoint.Record, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byDEL == nil {
		f.byDEL = map[string]delFailure{}
	}
	failure := f.byDEL[r.DELKey()]
	if failure.count++; failure.count == 1 {
		failure.since = now
	}
	f.byDEL[r.DELKey()] = failure
	return failure.count >= deferAfterFailures && now.Sub(failure.since) >= deferAfterTime
}

func (f *delFailures) forget(r checkpoint.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byDEL, r.DELKey())
}

// measureDel counts a DEL.
func (a *Attacher) measureDel(r checkpoint.Record, started time.Time, err *error) {
	if errors.Is(*err, operations.ErrNotBegun) {
		return
	}
	at := &r.Attachment
	a.Metrics.Network(at.Network.Namespace, at.Network.Name, at.Conflist).Deleted(time.Since(started), *err)
}

package attach

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netns"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podlog"
)

// A DEL that has failed this often, for at least this long, becomes a pending DEL. The
// deletion of a pod, and its next sandbox, wait no longer than about that.
const (
	deferAfterFailures = 3
	deferAfterTime     = 20 * time.Second
)

// Detach runs the DELs of the pod's records that match.
func (a *Attacher) Detach(ctx context.Context, podUID string, match func(checkpoint.Record) bool) error {
	return a.DetachKept(ctx, podUID, match, Kept{})
}

// DetachKept does the same in namespaces that were kept before, which it closes.
func (a *Attacher) DetachKept(ctx context.Context, podUID string, match func(checkpoint.Record) bool, kept Kept) error {
	done, err := a.delAll(ctx, a.Store.ForPod(podUID), match, kept)
	if len(done) > 0 {
		err = errors.Join(err, a.Store.MarkDetached(done...))
	}
	return err
}

// DetachClaim runs the DELs of one claim and then deletes its records. If all DELs succeed it
// records nothing in between, so that a full disk keeps no pod from being deleted.
func (a *Attacher) DetachClaim(ctx context.Context, claimUID string) error {
	wanted := func(checkpoint.Record) bool { return !failpoint.Off(failpoint.UnprepareDEL) }
	done, err := a.delAll(ctx, a.Store.ForClaim(claimUID), wanted, Kept{})
	if err != nil {
		return errors.Join(err, a.Store.MarkDetached(done...))
	}
	return a.Store.DeleteClaim(claimUID)
}

// delAll runs the DELs of the records that need one and match, the last attached first. It
// returns the keys of the records whose DEL has succeeded. A failure does not stop the
// other DELs (behaviour A4-50). When ctx ends it begins no further DEL.
func (a *Attacher) delAll(ctx context.Context, records []checkpoint.Record, match func(checkpoint.Record) bool, kept Kept) (done []checkpoint.Key, err error) {
	var errs []error
	defer kept.Close()
	for _, r := range slices.Backward(records) {
		if !r.NeedsDEL() || !match(r) {
			continue
		}
		if ctx.Err() != nil {
			errs = append(errs, reason.Errorf(reason.DELUnfinished, "network %s is not deleted from %s yet: %w", r.Attachment.Network, r.Attachment.Interface, context.Cause(ctx)))
			continue
		}
		if _, known := kept[r.Sandbox.ID]; !known {
			kept[r.Sandbox.ID] = a.keep(r)
		}
		switch succeeded, err := a.del(ctx, r, kept[r.Sandbox.ID]); {
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
	if !a.failures.enough(r, time.Now()) {
		return false, err
	}
	if deferErr := a.Store.DeferDEL(r.Key(), err); deferErr != nil {
		return false, errors.Join(err, deferErr)
	}
	a.failures.forget(r)
	a.PendingDELs.add(r)
	a.Deferred(r, err)
	return false, nil
}

// runDel runs the plugins' DEL for one record, restores what the attachment has displaced,
// and gives its device back to the host.
func (a *Attacher) runDel(ctx context.Context, r checkpoint.Record, ns namespace) (err error) {
	defer a.measureDel(r, time.Now(), &err)
	ctx, cancel := whole(ctx, a.Limits.Of(r.Attachment).Del)
	defer cancel()
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
	podlog.ForRecord(ctx, r).V(2).Info("Deleted attachment", "sandbox", sandbox.ID)
	return nil
}

// whole returns a context for a DEL that begins. The DEL's own limit ends it, and a
// cancelled ctx, but not the end of the time that ctx has for several DELs: bridge deletes
// the interface first and the rules of ipMasq last, and if it is killed in between, no
// second DEL finds these rules (v1.9.1).
func whole(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	out, end := context.WithTimeoutCause(context.WithoutCancel(ctx), limit, reason.Errorf(reason.DELUnfinished, "one DEL may take %s", limit))
	out, cancel := context.WithCancelCause(out)
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel(context.Cause(ctx))
		}
	})
	return out, func() { stop(); cancel(nil); end() }
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
	if err != nil {
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
	at := &r.Attachment
	a.Metrics.Network(at.Network.Namespace, at.Network.Name, at.Conflist).Deleted(time.Since(started), *err)
}

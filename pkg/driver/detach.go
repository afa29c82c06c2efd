package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

const (
	// detachTime bounds the DELs of a sandbox, or of a claim, with usual networks.
	detachTime = 35 * time.Second
	// A DEL that has failed so often, and for so long, becomes a debt: a pod's
	// deletion, or its next sandbox, waits no longer than about this.
	patientTimes = 3
	patientFor   = 20 * time.Second
)

// detach runs the DELs that are owed for the pod's records that match.
func (a *attacher) detach(ctx context.Context, podUID string, match func(checkpoint.Record) bool) error {
	done, err := a.runDels(ctx, a.store.ForPod(podUID), match)
	if len(done) > 0 {
		err = errors.Join(err, a.store.MarkDetached(done...))
	}
	return err
}

// release runs the DELs that are owed for one claim and then forgets it. It
// writes nothing where all succeed: a disk that is full keeps no pod from
// being deleted.
func (a *attacher) release(ctx context.Context, claimUID string) error {
	wanted := func(checkpoint.Record) bool { return !failpoint.Off(failpoint.UnprepareDEL) }
	done, err := a.runDels(ctx, a.store.ForClaim(claimUID), wanted)
	if err != nil {
		return errors.Join(err, a.store.MarkDetached(done...))
	}
	return a.store.DeleteClaim(claimUID)
}

// runDels runs the DELs that are owed for those of the records that match, last
// attached first, and returns which are settled and yet to be marked so. One
// failure does not stop the others (behaviour A4-50).
func (a *attacher) runDels(ctx context.Context, records []checkpoint.Record, match func(checkpoint.Record) bool) (done []checkpoint.Key, err error) {
	var errs []error
	there := a.thereOnce()
	for _, r := range slices.Backward(records) {
		if !r.DELOwed() || !match(r) {
			continue
		}
		switch settled, err := a.del(ctx, r, there(r)); {
		case err != nil:
			errs = append(errs, err)
		case settled:
			done = append(done, r.Key())
		}
	}
	return done, errors.Join(errs...)
}

// thereOnce is there, looking into each sandbox once: in between one ends, if
// at all, and none comes back.
func (a *attacher) thereOnce() func(checkpoint.Record) bool {
	seen := map[string]bool{}
	return func(r checkpoint.Record) bool {
		is, known := seen[r.Sandbox.ID]
		if !known {
			is = a.there(r)
			seen[r.Sandbox.ID] = is
		}
		return is
	}
}

// del runs DEL for one record with the sandbox that its ADD was for, whose
// network namespace is there or not. settled
// is false when the record was handed over instead, and owes nothing any more.
func (a *attacher) del(ctx context.Context, r checkpoint.Record, there bool) (settled bool, err error) {
	err = a.runDel(ctx, r, there)
	if err == nil {
		a.patience.forget(r)
		return true, nil
	}
	if !a.patience.over(r, time.Now()) {
		return false, err
	}
	if overErr := a.store.HandOver(r.Key(), err); overErr != nil {
		return false, errors.Join(err, overErr)
	}
	a.patience.forget(r)
	a.handedOver(r, err)
	return false, nil
}

// runDel runs the plugins of one record.
func (a *attacher) runDel(ctx context.Context, r checkpoint.Record, there bool) (err error) {
	defer a.measureDel(r, time.Now(), &err)
	limit := a.limits.of(r.Attachment).del
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("one DEL may take %s", limit))
	defer cancel()
	sandbox := *r.Sandbox
	if !there {
		sandbox.NetNS = "" // the path may be someone else's by now
	}
	failpoint.Reach(failpoint.BeforeDel)
	err = a.runner.Del(ctx, sandbox, r.Attachment, r.Result)
	failpoint.Reach(failpoint.AfterDel)
	if err == nil && len(r.Displaced) > 0 && sandbox.NetNS != "" {
		err = a.restoreDefaultRoutes(r)
	}
	if err == nil && r.Hardware != nil {
		err = a.home(*r.Hardware)
	}
	if err != nil {
		return fmt.Errorf("deleting network %s from %s: %w", r.Attachment.Network, r.Attachment.Interface, err)
	}
	logOf(ctx, r).V(2).Info("Deleted attachment", "sandbox", sandbox.ID)
	return nil
}

// there reports whether the network namespace that a record speaks of still
// exists: its path, in the same life of the node, with the same cookie. In
// doubt it does: nobody takes an address from a pod that runs.
func (a *attacher) there(r checkpoint.Record) bool {
	if r.Sandbox == nil || r.Sandbox.NetNS == "" || r.BootID != a.store.BootID() {
		return false
	}
	ns, err := a.look(r.Sandbox.NetNS)
	if err != nil {
		return !errors.Is(err, podns.ErrGone) && !errors.Is(err, podns.ErrHost)
	}
	return ns.cookie == r.Sandbox.Cookie
}

// patience counts the failures of each DEL since this driver was started.
type patience struct {
	mu    sync.Mutex
	fails map[string]failures
}

type failures struct {
	times int
	since time.Time
}

// over notes one more failure and reports whether that is enough.
func (p *patience) over(r checkpoint.Record, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails == nil {
		p.fails = map[string]failures{}
	}
	f := p.fails[r.DELKey()]
	if f.times++; f.times == 1 {
		f.since = now
	}
	p.fails[r.DELKey()] = f
	return f.times >= patientTimes && now.Sub(f.since) >= patientFor
}

func (p *patience) forget(r checkpoint.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.fails, r.DELKey())
}

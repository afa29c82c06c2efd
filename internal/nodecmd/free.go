package nodecmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// free frees the orphans in their order: a DEL comes before the addresses that it
// releases itself.
func (n *node) free(ctx context.Context) {
	failed := map[string]bool{} // sandboxes with a failed DEL
	for i := range n.report.Orphans {
		o := &n.report.Orphans[i]
		if o.Action == probe.ActionNone {
			continue
		}
		err := n.freeOne(ctx, o, failed[o.Sandbox])
		if err != nil {
			failed[o.Sandbox] = true
			o.Error = err.Error()
			continue
		}
		o.Done = true
	}
}

// errKept keeps files that the retry of a failed DEL may need.
var errKept = reason.Errorf(reason.OtherDELFailed, "the DEL of an attachment of the same sandbox failed, and its retry may need this file: it stays")

// freeOne frees an orphan. delFailed is true if a DEL of its sandbox failed.
func (n *node) freeOne(ctx context.Context, o *probe.Orphan, delFailed bool) error {
	path, err := n.inside(o.Object)
	if err != nil {
		return err
	}
	switch o.Kind {
	case probe.OrphanCNICache:
		return n.del(ctx, o.Object)
	case probe.OrphanMultusCache:
		if delFailed {
			return errKept
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	case probe.OrphanHostLocal:
		_, err := releaseLease(path, o.Sandbox)
		return err
	}
	return fmt.Errorf("freeing an orphan of unknown kind %q", o.Kind)
}

// del runs the DEL of an attachment. It leaves nadra's attachments to nadra's driver if
// that was started meanwhile.
func (n *node) del(ctx context.Context, object string) error {
	e, known := n.cached[object]
	if !known {
		return fmt.Errorf("%s was not read", object)
	}
	if e.owner == ownerNadra {
		dir, err := n.inside(n.StateDir)
		if err != nil {
			return err
		}
		if runs, err := locked(dir); err != nil || runs {
			return errors.Join(err, reason.Errorf(reason.DriverRunning, "nadra's driver runs, and retries its DEL"))
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, n.DELTimeout, errors.New("--del-timeout is over"))
	defer cancel()
	if err := n.runners[e.owner].DelOrphan(ctx, e.Cached); err != nil {
		return fmt.Errorf("running DEL: %w", err)
	}
	path, err := n.inside(object)
	if err == nil {
		// libcni removes it, too, but reports no error.
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing %s: %w", filepath.Base(object), err)
	}
	return nil
}

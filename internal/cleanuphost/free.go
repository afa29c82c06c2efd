package cleanuphost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nadra-dev/nadra/internal/cleanup"
)

// free carries out what was decided, in the order of the orphans: a DEL releases
// the addresses itself, with all else that a plugin keeps.
func (n *node) free(ctx context.Context) {
	failed := map[string]bool{} // sandboxes with a DEL that is still owed
	for i := range n.report.Orphans {
		o := &n.report.Orphans[i]
		if o.Action == cleanup.None {
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

// errOwed keeps what a DEL that has failed will need.
var errOwed = errors.New("an attachment of the same sandbox is still in a cache, and its DEL may need this: it stays")

func (n *node) freeOne(ctx context.Context, o *cleanup.Orphan, owed bool) error {
	path, err := n.inside(o.Object)
	if err != nil {
		return err
	}
	switch o.Kind {
	case cleanup.CNICache:
		return n.del(ctx, o.Object)
	case cleanup.MultusCache:
		if owed {
			return errOwed
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	case cleanup.HostLocal:
		_, err := releaseLease(path, o.Sandbox)
		return err
	}
	return fmt.Errorf("nothing is known about freeing a %s", o.Kind)
}

// del runs the plugins, for whoever has attached it. What is nadra's is nadra's
// own again when its driver has come meanwhile.
func (n *node) del(ctx context.Context, object string) error {
	e, known := n.cached[object]
	if !known {
		return fmt.Errorf("%s was not read", object)
	}
	if e.owner == cleanup.Nadra {
		dir, err := n.inside(n.StateDir)
		if err != nil {
			return err
		}
		if runs, err := locked(dir); err != nil || runs {
			return errors.Join(err, errors.New("nadra's driver runs, and frees it"))
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, n.DELTimeout, errors.New("the time for one DEL is over"))
	defer cancel()
	if err := n.runners[e.owner].DelOrphan(ctx, e.Orphan); err != nil {
		return fmt.Errorf("running DEL: %w", err)
	}
	path, err := n.inside(object)
	if err == nil {
		// libcni removes it, but says nothing where it cannot.
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing %s: %w", filepath.Base(object), err)
	}
	return nil
}

package live

import (
	"context"
	"errors"
	"fmt"

	"github.com/nadra-dev/nadra/internal/upgrade"
)

// notStranded refuses nodes that are the last for pods that would come back.
func (r *Runner) notStranded(ctx context.Context, way upgrade.Way, nodes ...string) error {
	if len(nodes) == 0 {
		return nil
	}
	f, err := r.facts(ctx)
	if err != nil {
		return err
	}
	stranded := f.Stranded(r.state, way, nodes...)
	if len(stranded) == 0 {
		return nil
	}
	if way == upgrade.Back {
		return fmt.Errorf("it is the last of nadra's, and its pods (%s first) would have no other: roll back --all, or their namespaces before", stranded[0])
	}
	why := "namespace " + stranded[0].Namespace + " is Multus': label it nadra.dev/owner=nadra, or go on without --wave"
	if stranded[0].Pinned {
		why = "it is labelled for Multus: take nadra.dev/owner off its pod template, or plan with --exclude"
	}
	return fmt.Errorf("no other node is Multus', and pod %s would have none: %s", stranded[0], why)
}

// homeOfMultus refuses to have pods made anew for Multus where it has no node.
func homeOfMultus(f *upgrade.Facts) error {
	if f.HasHome(false) {
		return nil
	}
	return errors.New("no node is Multus', and its pods would have none: roll back --all, or a node before")
}

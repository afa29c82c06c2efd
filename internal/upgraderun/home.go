package upgraderun

import (
	"context"
	"errors"
	"fmt"

	"github.com/nadra-dev/nadra/internal/upgrade"
)

// notStranded refuses nodes that are the last for pods that would come back. A
// dry run has not given back the namespaces that would go before.
func (r *Runner) notStranded(ctx context.Context, way upgrade.Way, nodes ...string) error {
	if len(nodes) == 0 || way == upgrade.Back && r.DryRun != "" {
		return nil
	}
	f, err := r.facts(ctx)
	if err != nil {
		return err
	}
	return notStranded(&f, r.state, way, nodes...)
}

func notStranded(f *upgrade.Facts, s *upgrade.State, way upgrade.Way, nodes ...string) error {
	stranded := f.Stranded(s, way, nodes...)
	if len(stranded) == 0 {
		return nil
	}
	pod := stranded[0]
	owner, why := "Multus'", "namespace "+pod.Namespace+" is Multus': label it nadra.dev/owner=nadra, or go on without --wave"
	switch {
	case way == upgrade.Back:
		owner, why = "nadra's", "namespace "+pod.Namespace+" is nadra's: roll it back before, or --all, or take its label nadra.dev/owner off"
	case pod.Pinned:
		why = "it is labelled for Multus: take nadra.dev/owner off its pod template, or plan with --exclude"
	}
	return fmt.Errorf("no other node is %s, and pod %s would have none: %s", owner, pod, why)
}

// homeOfMultus refuses to have pods made anew for Multus where it has no node.
func homeOfMultus(f *upgrade.Facts) error {
	if f.HasHome(false) {
		return nil
	}
	return errors.New("no node is Multus', and its pods would have none: roll back --all, or a node before")
}

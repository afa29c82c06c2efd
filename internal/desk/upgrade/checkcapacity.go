package upgrade

import (
	"context"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// checkCapacity refuses to move the last nodes of an owner while pods on them would come back
// as that owner's. It does not check dry rollbacks, which have not moved namespaces.
func (r *run) checkCapacity(ctx context.Context, direction Direction, nodes ...string) error {
	if len(nodes) == 0 || direction == ToMultus && r.DryRun != "" {
		return nil
	}
	f, err := r.facts(ctx)
	if err != nil {
		return err
	}
	return r.checkStranded(&f, direction, nodes...)
}

// checkStranded does the same with facts that were read already.
func (r *run) checkStranded(f *Facts, direction Direction, nodes ...string) error {
	stranded := f.stranded(r.state, direction, nodes...)
	if len(stranded) == 0 {
		return nil
	}
	pod := stranded[0]
	owner, why := "Multus", "Multus serves namespace "+pod.Namespace+": label it nadra.dev/owner=nadra, or run without --wave"
	switch {
	case direction == ToMultus:
		owner, why = "nadra", "nadra serves namespace "+pod.Namespace+": roll it back first, use --all, or remove its label nadra.dev/owner"
	case pod.Pinned:
		why = "it is labelled for Multus: remove nadra.dev/owner from its pod template, or plan with --exclude"
	}
	return reason.Errorf(reason.NoNodeForPods, "%s serves no other node, and pod %s would have none: %s", owner, pod, why)
}

// checkMultus refuses to recreate pods for Multus while Multus serves no node.
func (r *run) checkMultus(f *Facts) error {
	if f.hasNodeOf(v1alpha1.OwnerMultus) {
		return nil
	}
	return reason.Errorf(reason.NoNodeForPods, "Multus serves no node, and its pods would have none: roll back a node first, or use --all")
}

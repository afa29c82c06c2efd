package live

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/upgrade"
)

// RollBack gives something back to Multus: node/NAME, namespace/NAME,
// pod/NAMESPACE/NAME, or all.
func (r *Runner) RollBack(ctx context.Context, plan *upgrade.Plan, state *upgrade.State, target string) error {
	r.plan, r.state = plan, state
	r.state.Target = target
	kind, name, _ := strings.Cut(target, "/")
	do := map[string]func(context.Context, string) (upgrade.Phase, error){
		"node": r.rollBackNode, "namespace": r.rollBackNamespace, "pod": r.rollBackPod, "all": r.rollBackAll,
	}[kind]
	if do == nil {
		return fmt.Errorf("rolling back %q: it is none of node/NAME, namespace/NAME, pod/NAMESPACE/NAME and all", target)
	}
	return r.record(ctx, upgrade.RollingBack, func(ctx context.Context, name string) (upgrade.Phase, error) {
		end, err := do(ctx, name)
		if err == nil {
			r.state.Target, r.state.Reason = "", target+" was rolled back"
		}
		return end, err
	}, name)
}

// rollBackNode refuses where pods that are nadra's would have no node any more.
func (r *Runner) rollBackNode(ctx context.Context, name string) (upgrade.Phase, error) {
	if err := r.notStranded(ctx, upgrade.Back, name); err != nil {
		return "", &GateError{"node " + name, err}
	}
	return upgrade.Paused, r.walk(ctx, []string{name}, upgrade.Back)
}

// rollBackNamespace has the pods of a namespace made anew. It refuses where no
// node is Multus'.
func (r *Runner) rollBackNamespace(ctx context.Context, name string) (upgrade.Phase, error) {
	f, err := r.facts(ctx)
	if err == nil {
		err = homeOfMultus(&f)
	}
	if err == nil {
		err = r.returnNamespace(ctx, name)
	}
	if err != nil {
		return "", &GateError{"namespace " + name, err}
	}
	return upgrade.Paused, r.move(ctx, name)
}

// move evicts the pods of a namespace that are nadra's; they come back as
// Multus'.
func (r *Runner) move(ctx context.Context, namespace string) error {
	where := "namespace " + namespace
	err := r.evictAll(ctx, where, func(f *upgrade.Facts) []upgrade.Pod {
		return slices.DeleteFunc(slices.Clone(f.Pods), func(p upgrade.Pod) bool {
			return p.Namespace != namespace || !p.Nadra || p.Workload.Kind == "DaemonSet" // whose nodes decide
		})
	})
	if err != nil {
		return &GateError{where, err}
	}
	return nil
}

// rollBackAll gives back namespaces first, so that pods come back as Multus',
// then nodes, the last one first, and then the DaemonSets are as they were.
func (r *Runner) rollBackAll(ctx context.Context, _ string) (upgrade.Phase, error) {
	for _, name := range slices.Sorted(maps.Keys(r.state.Namespaces)) {
		if err := r.returnNamespace(ctx, name); err != nil {
			return "", &GateError{"namespace " + name, err}
		}
	}
	names := slices.Sorted(maps.Keys(r.state.Nodes))
	order := r.plan.NodeNames()
	slices.SortStableFunc(names, func(a, b string) int { return slices.Index(order, b) - slices.Index(order, a) })
	for _, name := range names {
		if n := r.state.Nodes[name]; n.Way == upgrade.Back && n.Finished() {
			continue
		}
		if err := r.walk(ctx, []string{name}, upgrade.Back); err != nil {
			return "", err
		}
	}
	return upgrade.RolledBack, r.restoreMultus(ctx)
}

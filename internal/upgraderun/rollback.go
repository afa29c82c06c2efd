package upgraderun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/upgrade"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// RollBack gives something back to Multus: node/NAME, namespace/NAME,
// pod/NAMESPACE/NAME, Deployment/NAMESPACE/NAME, StatefulSet/NAMESPACE/NAME, or
// all. What is refused at once leaves the state as it is.
func (r *Runner) RollBack(ctx context.Context, plan *upgrade.Plan, state *upgrade.State, target string) error {
	r.plan, r.state = plan, state
	f, err := r.facts(ctx)
	if err != nil {
		return err
	}
	if target, err = lasting(f, target); err != nil {
		return err
	}
	kind, name, _ := strings.Cut(target, "/")
	workload := func(ctx context.Context, name string) (upgrade.Phase, error) {
		namespace, name, _ := strings.Cut(name, "/")
		return r.rollBackWorkload(ctx, upgrade.Workload{Kind: kind, Namespace: namespace, Name: name})
	}
	do := map[string]func(context.Context, string) (upgrade.Phase, error){
		"node": r.rollBackNode, "namespace": r.rollBackNamespace, "Deployment": workload, "StatefulSet": workload, "all": r.rollBackAll,
	}[kind]
	if do == nil {
		return fmt.Errorf("rolling back %q: it is none of node/NAME, namespace/NAME, pod/NAMESPACE/NAME and all", target)
	}
	if err := r.mayRollBack(ctx, &f, kind, name); err != nil {
		return &GateError{strings.TrimSpace(kind + " " + name), err}
	}
	r.state.Target = target
	return r.record(ctx, upgrade.RollingBack, func(ctx context.Context, name string) (upgrade.Phase, error) {
		end, err := do(ctx, name)
		if err == nil {
			r.state.Target, r.state.Reason = "", target+" was rolled back"
		}
		return end, err
	}, name)
}

// lasting is a target that is the same when the rollback is resumed: of a pod,
// whose name does not last, it is what makes it.
func lasting(f upgrade.Facts, target string) (string, error) {
	name, isPod := strings.CutPrefix(target, "pod/")
	if !isPod {
		return target, nil
	}
	w, err := workloadOf(f, name)
	if err != nil {
		return "", &GateError{"pod " + name, err}
	}
	return w.Kind + "/" + w.Namespace + "/" + w.Name, nil
}

// mayRollBack refuses what is not there, and what would leave pods without a
// node.
func (r *Runner) mayRollBack(ctx context.Context, f *upgrade.Facts, kind, name string) error {
	switch kind {
	case "node":
		if !slices.ContainsFunc(f.Nodes, func(n upgrade.Node) bool { return n.Name == name }) {
			return errors.New("there is no such node")
		}
		return notStranded(f, r.state, upgrade.Back, name)
	case "namespace":
		if _, err := r.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return fmt.Errorf("reading it: %w", err)
		}
	case "all":
		if f.DefaultOwner == v1alpha1.OwnerNadra {
			return errors.New("nadra-controller runs with --default-owner=nadra, with which pods come back as nadra's: take that off first")
		}
		return nil
	}
	return homeOfMultus(f)
}

func (r *Runner) rollBackNode(ctx context.Context, name string) (upgrade.Phase, error) {
	return upgrade.Paused, r.walk(ctx, []string{name}, upgrade.Back)
}

// rollBackNamespace has the pods of a namespace made anew: by its own label,
// where pods without one are nadra's.
func (r *Runner) rollBackNamespace(ctx context.Context, name string) (upgrade.Phase, error) {
	f, err := r.facts(ctx)
	if err != nil {
		return "", err
	}
	owner := r.state.Namespaces[name].Owner
	if f.DefaultOwner == v1alpha1.OwnerNadra {
		owner = v1alpha1.OwnerMultus
	}
	if err := r.returnNamespace(ctx, name, owner); err != nil {
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
		if err := r.returnNamespace(ctx, name, r.state.Namespaces[name].Owner); err != nil {
			return "", &GateError{"namespace " + name, err}
		}
	}
	if err := r.notStranded(ctx, upgrade.Back, slices.Collect(maps.Keys(r.state.Nodes))...); err != nil {
		return "", &GateError{"all", err}
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

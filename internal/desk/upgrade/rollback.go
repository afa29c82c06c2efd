package upgrade

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// rollback gives targets back to Multus.
type rollback struct{ *run }

// do rolls a target back, and records it.
func (r rollback) do(ctx context.Context, target string) error {
	f, err := r.facts(ctx)
	if err != nil {
		return err
	}
	if target, err = lasting(f, target); err != nil {
		return err
	}
	kind, name, _ := strings.Cut(target, "/")
	workload := func(ctx context.Context, name string) error {
		namespace, name, _ := strings.Cut(name, "/")
		return r.workload(ctx, Workload{Kind: kind, Namespace: namespace, Name: name})
	}
	do := map[string]func(context.Context, string) error{
		"node": r.node, "namespace": r.namespace, "DaemonSet": workload, "Deployment": workload, "StatefulSet": workload, "all": r.all,
	}[kind]
	if do == nil {
		return fmt.Errorf("rolling back %q: use node/NAME, namespace/NAME, pod/NAMESPACE/NAME or all", target)
	}
	if err := r.refuse(ctx, &f, kind, name); err != nil {
		return &GateError{strings.TrimSpace(kind + " " + name), err}
	}
	r.state.Target = target
	return r.record(ctx, RollingBack, func(ctx context.Context) (Phase, error) {
		if err := do(ctx, name); err != nil {
			return "", err
		}
		r.state.Target, r.state.Reason = "", target+" was rolled back"
		r.Say("%s", r.state.Reason) // without a step that was left to undo, nothing else is printed
		if kind == "all" {
			return RolledBack, nil
		}
		return Paused, nil
	})
}

// lasting replaces a pod by its workload, because the pod's name does not last until the
// rollback is resumed.
func lasting(f Facts, target string) (string, error) {
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

// refuse refuses targets that do not exist, and rollbacks that would leave pods without a node. While a rollback is
// pending, whose target may have been deleted since, it refuses other targets, apart from all: nothing would continue the
// pending rollback.
func (r rollback) refuse(ctx context.Context, f *Facts, kind, name string) error {
	pending := r.state.Target
	if pending != "" && pending != kind+"/"+name && kind != "all" {
		return fmt.Errorf("%s is being rolled back: first end that with kubectl nadra upgrade resume, or use kubectl nadra upgrade rollback --all", pending)
	}
	exists, err := true, error(nil)
	switch {
	case kind == "namespace":
		exists, err = r.hasNamespace(ctx, name)
	case kind == "node" && r.plan.BesideMultus:
		return errors.New("beside Multus no node has moved: use rollback -n NAMESPACE, or --all")
	case kind == "node":
		exists = slices.ContainsFunc(f.Nodes, func(n Node) bool { return n.Name == name })
	}
	switch {
	case err != nil:
		return err
	case !exists && pending == "":
		return fmt.Errorf("the cluster has no such %s", kind)
	case !exists, r.plan.BesideMultus:
		return nil
	case kind == "node":
		return r.checkStranded(f, ToMultus, name)
	case kind != "all":
		return r.checkMultus(f)
	case f.DefaultOwner == v1alpha1.OwnerNadra:
		return reason.Errorf(reason.NoNodeForPods,
			"nadra-controller runs with --default-owner=nadra, so evicted pods would come back as nadra's: remove the flag first")
	}
	return nil
}

// node moves a node to Multus. It skips a node that has left the cluster, and one that is back already.
func (r rollback) node(ctx context.Context, name string) error {
	nodes, err := r.present(ctx, name)
	if err != nil || len(nodes) == 0 || r.state.Nodes[name].atMultus() && nodes[0].Labels[v1alpha1.OwnerLabel] != v1alpha1.OwnerNadra {
		return err
	}
	return r.nodeMoves().walk(ctx, ToMultus, name)
}

// namespace gives a namespace its original label, and evicts its pods. It skips a namespace that is gone. If pods
// without a label are nadra's by default, it labels the namespace for Multus instead.
func (r rollback) namespace(ctx context.Context, name string) error {
	if r.plan.BesideMultus {
		exists, err := r.hasNamespace(ctx, name)
		if err != nil || !exists {
			return err
		}
		return r.namespaceMoves().walk(ctx, ToMultus, name)
	}
	f, err := r.facts(ctx)
	if err != nil {
		return err
	}
	owner := r.state.Namespaces[name].Owner
	if f.DefaultOwner == v1alpha1.OwnerNadra {
		owner = v1alpha1.OwnerMultus
	}
	if err := r.giveBackNamespace(ctx, name, owner); err != nil {
		return &GateError{"namespace " + name, err}
	}
	return r.evictPods(ctx, name)
}

// evictPods evicts the pods of a namespace that nadra serves; they come back as Multus'.
// It leaves out pods of DaemonSets, whose nodes decide who serves them.
func (r rollback) evictPods(ctx context.Context, namespace string) error {
	where := "namespace " + namespace
	err := r.evictAll(ctx, where, func(f *Facts) []Pod {
		return slices.DeleteFunc(slices.Clone(f.Pods), func(p Pod) bool {
			return p.Namespace != namespace || !p.Nadra || p.Workload.Kind == "DaemonSet"
		})
	})
	if err != nil {
		return &GateError{where, err}
	}
	return nil
}

// all gives back namespaces first, so that evicted pods come back as Multus', then nodes,
// in reverse order of the plan, and last restores the DaemonSets.
func (r rollback) all(ctx context.Context, _ string) error {
	if r.plan.BesideMultus {
		return r.allNamespaces(ctx)
	}
	for _, name := range slices.Sorted(maps.Keys(r.state.Namespaces)) {
		if err := r.giveBackNamespace(ctx, name, r.state.Namespaces[name].Owner); err != nil {
			return &GateError{"namespace " + name, err}
		}
	}
	names := r.state.backwards(r.plan)
	if err := r.checkCapacity(ctx, ToMultus, names...); err != nil {
		return &GateError{"all", err}
	}
	for _, name := range names {
		if err := r.node(ctx, name); err != nil {
			return err
		}
	}
	return r.persist(ctx, r.GateTimeout, "all", r.restoreMultus)
}

// allNamespaces gives back all namespaces that have begun to move, the last one first.
func (r rollback) allNamespaces(ctx context.Context) error {
	for _, name := range r.state.backwards(r.plan) {
		if err := r.namespace(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

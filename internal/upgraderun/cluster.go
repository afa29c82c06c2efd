package upgraderun

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/upgrade"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// keepMultusOff has Multus' pods leave nodes as these become nadra's.
func (r *Runner) keepMultusOff(ctx context.Context) error {
	for _, ref := range r.plan.Multus {
		if err := r.keepOff(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runner) keepOff(ctx context.Context, ref upgrade.MultusRef) error {
	name := ref.Namespace + "/" + ref.DaemonSet
	d, err := r.Kube.AppsV1().DaemonSets(ref.Namespace).Get(ctx, ref.DaemonSet, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading DaemonSet %s: %w", name, err)
	}
	was, changed, err := upgrade.KeepOff(d)
	if err != nil || !changed {
		return err
	}
	if _, known := r.state.Multus[name]; !known {
		r.state.Multus[name] = was
		if err := r.save(ctx); err != nil {
			return err
		}
	}
	err = r.write(func() error {
		_, err := r.Kube.AppsV1().DaemonSets(ref.Namespace).Update(ctx, d, metav1.UpdateOptions{DryRun: r.dryRun()})
		return err
	})
	if err != nil {
		return fmt.Errorf("keeping DaemonSet %s off nadra's nodes: %w", name, err)
	}
	r.Say("DaemonSet %s is kept off nadra's nodes; its other pods are not replaced", name)
	return nil
}

// restoreMultus makes the DaemonSets what they were.
func (r *Runner) restoreMultus(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(r.state.Multus)) {
		namespace, daemonSet, _ := strings.Cut(name, "/")
		d, err := r.Kube.AppsV1().DaemonSets(namespace).Get(ctx, daemonSet, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading DaemonSet %s: %w", name, err)
		}
		changed, err := upgrade.Restore(d, r.state.Multus[name])
		if err == nil && changed {
			err = r.write(func() error {
				_, err := r.Kube.AppsV1().DaemonSets(namespace).Update(ctx, d, metav1.UpdateOptions{DryRun: r.dryRun()})
				return err
			})
		}
		if err != nil {
			return fmt.Errorf("restoring DaemonSet %s: %w", name, err)
		}
		delete(r.state.Multus, name)
		r.Say("DaemonSet %s is as it was", name)
	}
	return r.save(ctx)
}

func (r *Runner) takeNamespaces(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := r.takeNamespace(ctx, name); err != nil {
			return &GateError{"namespace " + name, err}
		}
	}
	return nil
}

// takeNamespace has nadra serve the pods of a namespace from now on; running
// ones are not touched.
func (r *Runner) takeNamespace(ctx context.Context, name string) error {
	if err := r.mayGoOn(ctx); err != nil {
		return err
	}
	ns, err := r.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		r.Say("namespace %s is gone", name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	if ns.Labels[v1alpha1.OwnerLabel] == v1alpha1.OwnerNadra {
		return nil
	}
	if _, known := r.state.Namespaces[name]; !known {
		r.state.Namespaces[name] = upgrade.NamespaceState{Owner: ns.Labels[v1alpha1.OwnerLabel]}
		if err := r.save(ctx); err != nil {
			return err
		}
	}
	if err := r.labelNamespace(ctx, name, v1alpha1.OwnerNadra); err != nil {
		return err
	}
	r.Say("namespace %s: its new pods are nadra's", name)
	return nil
}

// returnNamespace gives a namespace the label of an owner, or none.
func (r *Runner) returnNamespace(ctx context.Context, name, owner string) error {
	if err := r.labelNamespace(ctx, name, owner); err != nil {
		return err
	}
	delete(r.state.Namespaces, name)
	r.Say("namespace %s: its new pods are Multus'", name)
	return r.save(ctx)
}

func (r *Runner) labelNamespace(ctx context.Context, name, owner string) error {
	return r.write(func() error {
		_, err := r.Kube.CoreV1().Namespaces().Patch(ctx, name, mergePatch, ownerPatch(owner), metav1.PatchOptions{DryRun: r.dryRun()})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("labelling it: %w", err)
		}
		return nil
	})
}

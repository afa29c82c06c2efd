package upgrade

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// daemonSets keeps the plan's DaemonSets of Multus off nadra's nodes.
type daemonSets struct {
	env
	plan    *Plan
	journal *journal
}

// count returns the number of DaemonSets.
func (d *daemonSets) count() int { return len(d.plan.Multus) }

// keepOff changes the DaemonSets so that their pods leave nodes that become nadra's.
// It first saves their original settings.
func (d *daemonSets) keepOff(ctx context.Context) error {
	for _, ref := range d.plan.Multus {
		if err := d.keepOneOff(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

func (d *daemonSets) keepOneOff(ctx context.Context, ref MultusRef) error {
	name := ref.Namespace + "/" + ref.DaemonSet
	ds, err := d.kube.AppsV1().DaemonSets(ref.Namespace).Get(ctx, ref.DaemonSet, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading DaemonSet %s: %w", name, err)
	}
	original, changed, err := KeepOff(ds)
	if err != nil || !changed {
		return err
	}
	if _, known := d.journal.state.Multus[name]; !known {
		d.journal.state.Multus[name] = original
		if err := d.journal.save(ctx); err != nil {
			return err
		}
	}
	if err := d.update(ctx, ds); err != nil {
		return fmt.Errorf("keeping DaemonSet %s off nadra's nodes: %w", name, err)
	}
	d.say("DaemonSet %s is kept off nadra's nodes; its other pods are not replaced", name)
	return nil
}

// restore gives the DaemonSets their original settings.
func (d *daemonSets) restore(ctx context.Context) error {
	originals := d.journal.state.Multus
	for _, name := range slices.Sorted(maps.Keys(originals)) {
		namespace, daemonSet, _ := strings.Cut(name, "/")
		ds, err := d.kube.AppsV1().DaemonSets(namespace).Get(ctx, daemonSet, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading DaemonSet %s: %w", name, err)
		}
		changed, err := Restore(ds, originals[name])
		if err == nil && changed {
			err = d.update(ctx, ds)
		}
		if err != nil {
			return fmt.Errorf("restoring DaemonSet %s: %w", name, err)
		}
		delete(originals, name)
		d.say("DaemonSet %s is restored", name)
	}
	return d.journal.save(ctx)
}

func (d *daemonSets) update(ctx context.Context, ds *appsv1.DaemonSet) error {
	return d.dry.write(func() error {
		_, err := d.kube.AppsV1().DaemonSets(ds.Namespace).Update(ctx, ds, metav1.UpdateOptions{DryRun: d.dry.options()})
		return err
	})
}

// podsOn lists the pods of the DaemonSets on a node.
func (d *daemonSets) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	pods, err := podsOn(ctx, d.kube, node)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		owner := metav1.GetControllerOf(&p)
		return owner == nil || owner.Kind != "DaemonSet" || !slices.Contains(d.plan.Multus, MultusRef{Namespace: p.Namespace, DaemonSet: owner.Name})
	}), nil
}

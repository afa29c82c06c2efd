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

// keepMultusOff changes the DaemonSets so that their pods leave nodes that become nadra's.
// It first saves their original settings.
func (r *run) keepMultusOff(ctx context.Context) error {
	for _, ref := range r.plan.Multus {
		if err := r.keepOneOff(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) keepOneOff(ctx context.Context, ref MultusRef) error {
	name := ref.Namespace + "/" + ref.DaemonSet
	ds, err := r.Kube.AppsV1().DaemonSets(ref.Namespace).Get(ctx, ref.DaemonSet, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading DaemonSet %s: %w", name, err)
	}
	original, changed, err := keepOff(ds)
	if err != nil || !changed {
		return err
	}
	if _, known := r.state.Multus[name]; !known {
		r.state.Multus[name] = original
		if err := r.save(ctx); err != nil {
			return err
		}
	}
	if err := r.updateDaemonSet(ctx, ds); err != nil {
		return fmt.Errorf("keeping DaemonSet %s off nadra's nodes: %w", name, err)
	}
	r.Say("DaemonSet %s is kept off nadra's nodes; its other pods are not replaced", name)
	return nil
}

// restoreMultus gives the DaemonSets their original settings.
func (r *run) restoreMultus(ctx context.Context) error {
	originals := r.state.Multus
	for _, name := range slices.Sorted(maps.Keys(originals)) {
		namespace, daemonSet, _ := strings.Cut(name, "/")
		ds, err := r.Kube.AppsV1().DaemonSets(namespace).Get(ctx, daemonSet, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading DaemonSet %s: %w", name, err)
		}
		changed, err := restore(ds, originals[name])
		if err == nil && changed {
			err = r.updateDaemonSet(ctx, ds)
		}
		if err != nil {
			return fmt.Errorf("restoring DaemonSet %s: %w", name, err)
		}
		delete(originals, name)
		r.Say("DaemonSet %s is restored", name)
	}
	return r.save(ctx)
}

func (r *run) updateDaemonSet(ctx context.Context, ds *appsv1.DaemonSet) error {
	return r.DryRun.Write(func() error {
		_, err := r.Kube.AppsV1().DaemonSets(ds.Namespace).Update(ctx, ds, metav1.UpdateOptions{DryRun: r.DryRun.Options()})
		return err
	})
}

// multusPodsOn lists the pods of the DaemonSets on a node.
func (r *run) multusPodsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	pods, err := podsOn(ctx, r.Kube, node)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		owner := metav1.GetControllerOf(&p)
		return owner == nil || owner.Kind != "DaemonSet" ||
			!slices.Contains(r.plan.Multus, MultusRef{Namespace: p.Namespace, DaemonSet: owner.Name})
	}), nil
}

package upgrade

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// workload labels the pod template of a workload for Multus, which makes the workload
// recreate its pods. It waits until Multus serves all of them, and as many are ready as
// before.
func (r rollback) workload(ctx context.Context, workload Workload) error {
	f, err := r.facts(ctx)
	if err != nil {
		return err
	}
	before := []WorkloadPods{{workload, f.Ready(workload)}}
	err = r.labelTemplate(ctx, workload)
	if apierrors.IsNotFound(err) { // a rollback that is resumed
		r.Say("%s is gone", workload)
		return nil
	}
	if err != nil {
		return err
	}
	r.Say("%s: Multus serves its new pods", workload)
	err = r.awaitPods(ctx, before, func(f *Facts) string {
		i := slices.IndexFunc(f.Pods, func(p Pod) bool { return p.Workload == workload && p.servedByNadra() })
		if i < 0 {
			return ""
		}
		return fmt.Sprintf("nadra still serves pod %s", f.Pods[i])
	})
	if err != nil {
		return &GateError{workload.String(), err}
	}
	return nil
}

// labelTemplate labels the pod template of a workload for Multus.
func (r rollback) labelTemplate(ctx context.Context, workload Workload) error {
	err := r.patchTemplate(ctx, workload, fmt.Sprintf(`{"labels":{%q:%q}}`, v1alpha1.OwnerLabel, v1alpha1.OwnerMultus))
	if err != nil {
		return fmt.Errorf("labelling the pod template of %s: %w", workload, err)
	}
	return nil
}

// patchTemplate changes the metadata of a workload's pod template, which makes the workload recreate its pods.
// It refuses kinds that no rollout restarts.
func (r *run) patchTemplate(ctx context.Context, w Workload, metadata string) error {
	patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":%s}}}`, metadata)
	options, apps := metav1.PatchOptions{DryRun: r.DryRun.Options()}, r.Kube.AppsV1()
	return r.DryRun.Write(func() (err error) {
		switch w.Kind {
		case "DaemonSet":
			_, err = apps.DaemonSets(w.Namespace).Patch(ctx, w.Name, types.StrategicMergePatchType, patch, options)
		case "StatefulSet":
			_, err = apps.StatefulSets(w.Namespace).Patch(ctx, w.Name, types.StrategicMergePatchType, patch, options)
		case "Deployment":
			_, err = apps.Deployments(w.Namespace).Patch(ctx, w.Name, types.StrategicMergePatchType, patch, options)
		default:
			err = fmt.Errorf("no rollout restarts a %s", w.Kind)
		}
		return err
	})
}

// workloadOf finds the workload of a pod, namespace/name.
func workloadOf(f Facts, name string) (Workload, error) {
	for _, p := range f.Pods {
		if p.String() != name {
			continue
		}
		switch p.Workload.Kind {
		case "Deployment", "StatefulSet":
			return p.Workload, nil
		case "DaemonSet":
			if f.BesideMultus {
				return p.Workload, nil
			}
			return p.Workload, fmt.Errorf("it belongs to %s, whose nodes decide: use rollback --node %s", p.Workload, p.Node)
		case "":
			return p.Workload, reason.Errorf(reason.PodNotRecreated, "nothing recreates it: create it with the label %s=%s", v1alpha1.OwnerLabel, v1alpha1.OwnerMultus)
		}
		return p.Workload, fmt.Errorf("it belongs to %s: label its pod template %s=%s", p.Workload, v1alpha1.OwnerLabel, v1alpha1.OwnerMultus)
	}
	return Workload{}, fmt.Errorf("the cluster has no such pod with networks: name it as NAMESPACE/NAME")
}

package upgraderun

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/internal/upgrade"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// rollBackWorkload labels the pod template of a workload, which then makes all of
// its pods anew, and waits until they are Multus' and as many are ready.
func (r *Runner) rollBackWorkload(ctx context.Context, w upgrade.Workload) (upgrade.Phase, error) {
	f, err := r.facts(ctx)
	if err != nil {
		return "", err
	}
	before := f.Ready(w)
	if err := r.labelTemplate(ctx, w); err != nil {
		return "", err
	}
	r.Say("%s: its pods are Multus' from now on", w)
	err = r.await(ctx, r.GateTimeout, func(ctx context.Context) (string, error) {
		f, err := r.facts(ctx)
		if err != nil {
			return "", err
		}
		for _, p := range f.Pods {
			if p.Workload == w && p.Nadra {
				return fmt.Sprintf("pod %s is still nadra's", p), nil
			}
		}
		if now := f.Ready(w); now < before {
			return fmt.Sprintf("%s has %d pods ready, and had %d before", w, now, before), nil
		}
		return "", nil
	})
	if err != nil {
		return "", &GateError{w.String(), err}
	}
	return upgrade.Paused, nil
}

// workloadOf finds what has made a pod, namespace/name.
func workloadOf(f upgrade.Facts, name string) (upgrade.Workload, error) {
	for _, p := range f.Pods {
		if p.String() != name {
			continue
		}
		switch p.Workload.Kind {
		case "Deployment", "StatefulSet":
			return p.Workload, nil
		case "DaemonSet":
			return p.Workload, fmt.Errorf("%s has made it, for which the node decides: roll back --node %s", p.Workload, p.Node)
		case "":
			return p.Workload, fmt.Errorf("nobody makes it again: create it with the label %s=%s", v1alpha1.OwnerLabel, v1alpha1.OwnerMultus)
		}
		return p.Workload, fmt.Errorf("%s has made it: label its pod template %s=%s", p.Workload, v1alpha1.OwnerLabel, v1alpha1.OwnerMultus)
	}
	return upgrade.Workload{}, fmt.Errorf("there is no such pod with networks: name it as NAMESPACE/NAME")
}

// labelTemplate leaves the pods of a Deployment or StatefulSet to Multus.
func (r *Runner) labelTemplate(ctx context.Context, w upgrade.Workload) error {
	patch := []byte(fmt.Sprintf(`{"spec":{"template":{"metadata":{"labels":{%q:%q}}}}}`, v1alpha1.OwnerLabel, v1alpha1.OwnerMultus))
	options := metav1.PatchOptions{DryRun: r.dryRun()}
	err := r.write(func() (err error) {
		if w.Kind == "StatefulSet" {
			_, err = r.Kube.AppsV1().StatefulSets(w.Namespace).Patch(ctx, w.Name, types.StrategicMergePatchType, patch, options)
		} else {
			_, err = r.Kube.AppsV1().Deployments(w.Namespace).Patch(ctx, w.Name, types.StrategicMergePatchType, patch, options)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("labelling the pod template of %s: %w", w, err)
	}
	return nil
}

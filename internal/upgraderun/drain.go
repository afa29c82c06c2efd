package upgraderun

import (
	"context"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/upgrade"
)

// facts are those of the cluster now.
func (r *Runner) facts(ctx context.Context) (upgrade.Facts, error) {
	objects, err := Cluster{Kube: r.Kube}.Objects(ctx)
	if err != nil {
		return upgrade.Facts{}, err
	}
	return objects.Facts(r.plan.DomainLabel, r.plan.Multus), nil
}

// readyOf is how many pods of the workloads that a node's move disturbs are
// ready.
func (r *Runner) readyOf(ctx context.Context, node string, way upgrade.Way) ([]upgrade.WorkloadPods, error) {
	f, err := r.facts(ctx)
	if err != nil {
		return nil, err
	}
	return f.ReadyOf(f.Disturbed(node, way)), nil
}

// drain evicts the pods with networks of the one that the node goes away from,
// and waits until they are gone: their networks are then taken off by what had
// put them there. Other pods are not touched.
func (r *Runner) drain(ctx context.Context, name string, n *upgrade.NodeState) error {
	return r.evictAll(ctx, "node "+name, func(f *upgrade.Facts) []upgrade.Pod { return f.Disturbed(name, n.Way) })
}

// evictAll evicts pods, each of them once, until there are none left.
func (r *Runner) evictAll(ctx context.Context, where string, left func(*upgrade.Facts) []upgrade.Pod) error {
	evicted := map[string]bool{}
	return r.await(ctx, r.DrainTimeout, func(ctx context.Context) (string, error) {
		f, err := r.facts(ctx)
		if err != nil {
			return "", err
		}
		missing := ""
		for _, p := range left(&f) {
			if missing == "" {
				missing = fmt.Sprintf("pod %s is still there", p)
			}
			if evicted[p.String()] {
				continue
			}
			held, err := r.evict(ctx, p)
			if err != nil {
				return "", err
			}
			if held != "" {
				missing = held
				continue
			}
			evicted[p.String()] = true
			r.Say("%s: evicted pod %s", where, p)
		}
		return missing, nil
	})
}

// evict evicts a pod, or says what holds it back.
func (r *Runner) evict(ctx context.Context, p upgrade.Pod) (held string, err error) {
	if p.Static {
		return "", fmt.Errorf("pod %s is static: remove its file from the node, or its annotation", p)
	}
	if p.Workload.Kind == "" && !r.Force {
		return "", fmt.Errorf("pod %s is made again by nobody: delete it, or say --force to have it deleted", p)
	}
	options := &metav1.DeleteOptions{DryRun: r.dryRun()}
	if p.UID != "" { // not its successor of the same name
		options.Preconditions = &metav1.Preconditions{UID: &p.UID}
	}
	err = r.write(func() error {
		return r.Kube.PolicyV1().Evictions(p.Namespace).Evict(ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, DeleteOptions: options,
		})
	})
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return "", nil
	case apierrors.IsTooManyRequests(err):
		return fmt.Sprintf("a PodDisruptionBudget holds pod %s: %v", p, err), nil
	}
	return "", fmt.Errorf("evicting pod %s: %w", p, err)
}

// settle waits until as many pods of the disturbed workloads are ready as were
// before.
func (r *Runner) settle(ctx context.Context, _ string, n *upgrade.NodeState) error {
	return r.await(ctx, r.GateTimeout, func(ctx context.Context) (string, error) {
		f, err := r.facts(ctx)
		if err != nil {
			return "", err
		}
		for _, before := range n.Ready {
			if now := f.Ready(before.Workload); now < before.Pods {
				return fmt.Sprintf("%s has %d pods ready, and had %d before", before.Workload, now, before.Pods), nil
			}
		}
		return "", nil
	})
}

package upgrade

import (
	"context"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// evictAll evicts the pods that left returns, each once, and waits until left returns
// none. where is for progress messages.
func (r *run) evictAll(ctx context.Context, where string, left func(*Facts) []Pod) error {
	evicted := map[string]bool{}
	return r.await(ctx, r.DrainTimeout, reason.DrainTimeout, func(ctx context.Context) (string, error) {
		f, err := r.facts(ctx)
		if err != nil {
			return "", err
		}
		missing := ""
		for _, p := range left(&f) {
			if missing == "" {
				missing = fmt.Sprintf("pod %s still runs", p)
			}
			if evicted[p.String()] {
				continue
			}
			blocked, err := r.evict(ctx, p)
			if err != nil {
				return "", err
			}
			if blocked != "" {
				missing = blocked
				continue
			}
			evicted[p.String()] = true
			r.Say("%s: evicted pod %s", where, p)
		}
		return missing, nil
	})
}

// evict evicts a pod. If a PodDisruptionBudget blocks the eviction, it returns its
// message.
func (r *run) evict(ctx context.Context, p Pod) (blocked string, err error) {
	if p.isBare() && !r.Force {
		return "", reason.Errorf(reason.PodNotRecreated, "nothing recreates pod %s: delete it, or use --force", p)
	}
	options := &metav1.DeleteOptions{DryRun: r.DryRun.Options()}
	if p.UID != "" { // not its successor of the same name
		options.Preconditions = metav1.NewUIDPreconditions(string(p.UID))
	}
	err = r.DryRun.Write(func() error {
		return r.Kube.PolicyV1().Evictions(p.Namespace).Evict(ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, DeleteOptions: options,
		})
	})
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return "", nil
	case apierrors.IsTooManyRequests(err):
		return fmt.Sprintf("a PodDisruptionBudget blocks the eviction of pod %s: %v", p, err), nil
	}
	return "", fmt.Errorf("evicting pod %s: %w", p, err)
}

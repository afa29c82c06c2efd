// Package upgraderun reads from a cluster what package upgrade plans with, and carries
// plans out.
package upgraderun

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/internal/upgrade"
)

// Cluster is what to read.
type Cluster struct {
	Kube kubernetes.Interface
	// Progress is told what is read now.
	Progress func(string)
}

// Objects reads all that a plan depends on. What cannot be read is an error: a
// plan that does not know of a budget, or of a pod, is worse than none.
func (c Cluster) Objects(ctx context.Context) (*upgrade.Objects, error) {
	out := &upgrade.Objects{}
	core, apps := c.Kube.CoreV1(), c.Kube.AppsV1()
	for _, step := range []struct {
		what string
		read func(context.Context) error
	}{
		{"nodes", all(core.Nodes().List, &out.Nodes)},
		{"namespaces", all(core.Namespaces().List, &out.Namespaces)},
		{"daemonsets.apps", all(apps.DaemonSets("").List, &out.DaemonSets)},
		{"deployments.apps", all(apps.Deployments("").List, &out.Deployments)},
		{"replicasets.apps", all(apps.ReplicaSets("").List, &out.ReplicaSets)},
		{"jobs.batch", all(c.Kube.BatchV1().Jobs("").List, &out.Jobs)},
		{"poddisruptionbudgets.policy", all(c.Kube.PolicyV1().PodDisruptionBudgets("").List, &out.Budgets)},
		{"resourceclaims.resource.k8s.io", all(c.Kube.ResourceV1().ResourceClaims("").List, &out.Claims)},
		{"pods", all(core.Pods("").List, &out.Pods)},
	} {
		if c.Progress != nil {
			c.Progress(step.what)
		}
		if err := step.read(ctx); err != nil {
			return nil, readError(step.what, err)
		}
	}
	return out, nil
}

func readError(what string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("reading %s: %w: the right to list them in all namespaces is needed", what, err)
	}
	return fmt.Errorf("reading %s: %w", what, err)
}

// all returns what appends all objects of a kind to a list, page by page.
func all[T any, L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error), to *[]T) func(context.Context) error {
	return func(ctx context.Context) error {
		return kube.EachItem(ctx, metav1.ListOptions{}, kube.PagesOf(list), func(item *T) { *to = append(*to, *item) })
	}
}

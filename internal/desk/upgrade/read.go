package upgrade

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/internal/kube"
)

// Cluster reads a cluster.
type Cluster struct {
	Kube kubernetes.Interface
	// BesideMultus is set if the user says that nadra will run beside Multus on one node.
	BesideMultus bool
	// Progress is called with the resource that is read next; it may be nil.
	Progress func(string)
}

// Objects reads all objects that a plan depends on. It fails if it cannot read one kind:
// a plan that ignores a budget or a pod is worse than none.
func (c Cluster) Objects(ctx context.Context) (*Objects, error) {
	out := &Objects{BesideMultus: c.BesideMultus}
	core, apps := c.Kube.CoreV1(), c.Kube.AppsV1()
	budgets := func(ctx context.Context) error {
		if !c.BesideMultus && !installation.Of(out.DaemonSets, out.Deployments).BesideMultus() {
			return nil
		}
		return all(c.Kube.PolicyV1().PodDisruptionBudgets("").List, &out.Budgets)(ctx)
	}
	for _, step := range []struct {
		resource string
		read     func(context.Context) error
	}{
		{"nodes", all(core.Nodes().List, &out.Nodes)},
		{"namespaces", all(core.Namespaces().List, &out.Namespaces)},
		{"daemonsets.apps", all(apps.DaemonSets("").List, &out.DaemonSets)},
		{"deployments.apps", all(apps.Deployments("").List, &out.Deployments)},
		{"statefulsets.apps", all(apps.StatefulSets("").List, &out.StatefulSets)},
		{"poddisruptionbudgets.policy", budgets},
		{"replicasets.apps", all(apps.ReplicaSets("").List, &out.ReplicaSets)},
		{"jobs.batch", all(c.Kube.BatchV1().Jobs("").List, &out.Jobs)},
		{"resourceclaims.resource.k8s.io", all(c.Kube.ResourceV1().ResourceClaims("").List, &out.Claims)},
		{"pods", all(core.Pods("").List, &out.Pods)},
	} {
		if c.Progress != nil {
			c.Progress(step.resource)
		}
		err := step.read(ctx)
		switch {
		case apierrors.IsForbidden(err):
			return nil, fmt.Errorf("reading %s: %w: grant the right to list them in all namespaces", step.resource, err)
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", step.resource, err)
		}
	}
	return out, nil
}

// all returns a function that appends all objects of a kind to a list, page by page.
func all[T any, L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error), to *[]T) func(context.Context) error {
	return func(ctx context.Context) error {
		return kube.EachItem(ctx, kube.All, list, kube.Into(to))
	}
}

// facts reads the present facts of the cluster.
func (r *run) facts(ctx context.Context) (Facts, error) {
	objects, err := Cluster{Kube: r.Kube, BesideMultus: r.plan.BesideMultus}.Objects(ctx)
	if err != nil {
		return Facts{}, err
	}
	return objects.Facts(r.plan.DomainLabel, r.plan.Multus), nil
}

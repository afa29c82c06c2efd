package cleanup

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/desk/upgrade"
	"github.com/nadra-dev/nadra/internal/kube"
)

// facts reads what decides whether nadra is in use, without the nodes' records.
func (u Uninstaller) facts(ctx context.Context) (useFacts, error) {
	var f useFacts
	resources, core := u.Kube.ResourceV1(), u.Kube.CoreV1()
	for _, read := range []func() error{
		func() error { return kube.Append(ctx, "ResourceClaims", resources.ResourceClaims("").List, &f.Claims) },
		func() error {
			return kube.Append(ctx, "ResourceClaimTemplates", resources.ResourceClaimTemplates("").List, &f.Templates)
		},
		func() error { return kube.Append(ctx, "pods", core.Pods("").List, &f.Pods) },
		func() error { return kube.Append(ctx, "nodes", core.Nodes().List, &f.Nodes) },
		func() error { return kube.Append(ctx, "namespaces", core.Namespaces().List, &f.Namespaces) },
	} {
		if err := read(); err != nil {
			return f, err
		}
	}
	err := kube.EachWorkload(ctx, u.Kube, "", func(o metav1.Object, kind string, template *corev1.PodTemplateSpec) {
		if kind != "ReplicaSet" || metav1.GetControllerOf(o) == nil {
			f.Workloads = append(f.Workloads, workload{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), Template: template})
		}
	})
	if err != nil {
		return f, err
	}
	f.Upgrade, err = u.upgrade(ctx, f.Workloads)
	return f, err
}

// upgrade describes an unfinished upgrade; empty without one. An upgrade is unfinished, too, while the cluster has a
// DaemonSet of Multus whose original settings only the upgrade's state has.
func (u Uninstaller) upgrade(ctx context.Context, workloads []workload) (string, error) {
	_, state, _, err := upgrade.Store{Kube: u.Kube, Namespace: u.Where.Controller}.Load(ctx)
	switch {
	case errors.Is(err, upgrade.ErrNone):
		return "", nil
	case err != nil:
		return "", err
	case state.Phase == upgrade.Done:
		for _, w := range workloads {
			if _, changed := state.Multus[w.Namespace+"/"+w.Name]; changed && w.Kind == "DaemonSet" {
				return fmt.Sprintf("it has changed DaemonSet %s/%s of Multus, and has its original settings", w.Namespace, w.Name), nil
			}
		}
		return "", nil
	case state.Phase == upgrade.RolledBack:
		return "", nil
	}
	return "it is " + string(state.Phase), nil
}

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
	for _, step := range []struct {
		kind string
		read func() error
	}{
		{"ResourceClaims", func() error {
			return kube.EachItem(ctx, kube.All, resources.ResourceClaims("").List, kube.Into(&f.Claims))
		}},
		{"ResourceClaimTemplates", func() error {
			return kube.EachItem(ctx, kube.All, resources.ResourceClaimTemplates("").List, kube.Into(&f.Templates))
		}},
		{"pods", func() error { return kube.EachItem(ctx, kube.All, core.Pods("").List, kube.Into(&f.Pods)) }},
		{"nodes", func() error { return kube.EachItem(ctx, kube.All, core.Nodes().List, kube.Into(&f.Nodes)) }},
		{"namespaces", func() error { return kube.EachItem(ctx, kube.All, core.Namespaces().List, kube.Into(&f.Namespaces)) }},
	} {
		if err := step.read(); err != nil {
			return f, fmt.Errorf("listing %s: %w", step.kind, err)
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
	f.Upgrade, err = u.upgrade(ctx)
	return f, err
}

// upgrade describes an unfinished upgrade; empty without one.
func (u Uninstaller) upgrade(ctx context.Context) (string, error) {
	_, state, _, err := upgrade.Store{Kube: u.Kube, Namespace: u.Where.Controller}.Load(ctx)
	switch {
	case errors.Is(err, upgrade.ErrNone):
		return "", nil
	case err != nil:
		return "", err
	case state.Phase == upgrade.Done || state.Phase == upgrade.RolledBack:
		return "", nil
	}
	return "it is " + string(state.Phase), nil
}

package cleanup

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// prefix is the prefix of nadra's labels, annotations and taints.
const prefix = "nadra.dev/"

// deleteInstalled returns a step that deletes the objects of these kinds that the manifests have installed.
func (u Uninstaller) deleteInstalled(kinds []kind) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, k := range kinds {
			var list unstructured.UnstructuredList
			list.SetGroupVersionKind(k.gvk())
			err := u.Client.List(ctx, &list, client.MatchingLabels{partOf: nadra})
			if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
				return fmt.Errorf("listing objects of kind %s: %w", k.name, err)
			}
			for i := range list.Items {
				if !u.isInstalled(&list.Items[i]) {
					continue
				}
				if err := u.remover().Delete(ctx, &list.Items[i]); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// isInstalled reports whether an object with the label is where the manifests install objects: people may give the label
// to objects of their own.
func (u Uninstaller) isInstalled(o client.Object) bool {
	switch o.GetNamespace() {
	case u.Where.Driver, u.Where.Controller:
		return true
	case "", metav1.NamespaceSystem:
		return strings.HasPrefix(o.GetName(), nadra+"-") || o.GetName() == v1alpha1.DriverName
	}
	// The chart gives the driver rights in namespaces that have what it reads.
	return o.GetObjectKind().GroupVersionKind().Group == rbacGroup && strings.HasPrefix(o.GetName(), driver+"-")
}

// deleteState deletes the state of an upgrade, and its Lease.
func (u Uninstaller) deleteState(ctx context.Context) error {
	state := metav1.ObjectMeta{Namespace: u.Where.Controller, Name: "nadra-upgrade"}
	return u.remover().Delete(ctx, &corev1.ConfigMap{ObjectMeta: state}, &coordinationv1.Lease{ObjectMeta: state})
}

// deleteSlices deletes the driver's ResourceSlices, unless the kubelets were first.
func (u Uninstaller) deleteSlices(ctx context.Context) error {
	list, err := u.Kube.ResourceV1().ResourceSlices().List(ctx, kube.OwnSlices)
	if err != nil {
		return fmt.Errorf("listing ResourceSlices: %w", err)
	}
	for i := range list.Items {
		if err := u.remover().Delete(ctx, &list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// removeMarks removes nadra's labels, annotations and taints from nodes and namespaces.
func (u Uninstaller) removeMarks(ctx context.Context) error {
	f, err := u.facts(ctx)
	if err != nil {
		return err
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		patch := marksPatch(n.ObjectMeta)
		if taints := withoutOurs(n.Spec.Taints); len(taints) < len(n.Spec.Taints) {
			patch["spec"] = map[string]any{"taints": taints}
		}
		if err := u.removeMarksOf(ctx, "node "+n.Name, n, patch); err != nil {
			return err
		}
	}
	for i := range f.Namespaces {
		n := &f.Namespaces[i]
		if n.Name == u.Where.Driver { // it keeps the note until it is deleted
			continue
		}
		if err := u.removeMarksOf(ctx, "namespace "+n.Name, n, marksPatch(n.ObjectMeta)); err != nil {
			return err
		}
	}
	return nil
}

// removeMarksOf applies a patch of marksPatch to an object, which title names.
func (u Uninstaller) removeMarksOf(ctx context.Context, title string, o client.Object, patch map[string]any) error {
	if len(patch) == 0 {
		return nil
	}
	text, err := json.Marshal(patch)
	if err == nil {
		err = u.DryRun.Write(func() error {
			return u.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, text), &client.PatchOptions{DryRun: u.DryRun.Options()})
		})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing nadra's labels, annotations and taints from %s: %w", title, err)
	}
	u.Say("%s: removed nadra's labels, annotations and taints", title)
	return nil
}

// marksPatch returns a patch that removes nadra's labels and annotations; empty if there are
// none.
func marksPatch(m metav1.ObjectMeta) map[string]any {
	patch, metadata := map[string]any{}, map[string]any{}
	for field, all := range map[string]map[string]string{"labels": m.Labels, "annotations": m.Annotations} {
		off := map[string]any{}
		for key := range all {
			if strings.HasPrefix(key, prefix) {
				off[key], metadata[field] = nil, off
			}
		}
	}
	if len(metadata) > 0 {
		patch["metadata"] = metadata
	}
	return patch
}

// withoutOurs returns the taints that are not nadra's.
func withoutOurs(taints []corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, prefix) })
}

// deleteNamespaces deletes both namespaces, unless they have pods of others, and waits until
// they are gone.
func (u Uninstaller) deleteNamespaces(ctx context.Context) error {
	if u.DryRun == "" {
		if err := u.Pods.Sweep(ctx, 0); err != nil {
			return err
		}
	}
	for _, name := range []string{u.Where.Controller, u.Where.Driver} { // the pods on nodes run in the driver's
		pods, err := u.Kube.CoreV1().Pods(name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing pods of namespace %s: %w", name, err)
		}
		if len(pods.Items) > 0 && u.DryRun == "" {
			u.Say("kept Namespace %s: it has other pods, for example %s", name, pods.Items[0].Name)
			continue
		}
		if err := u.remover().Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
		err = u.await(ctx, "the end of Namespace "+name, func(ctx context.Context) (string, error) {
			var ns corev1.Namespace
			err := u.Client.Get(ctx, client.ObjectKey{Name: name}, &ns)
			switch {
			case apierrors.IsNotFound(err):
				return "", nil
			case err != nil:
				return "", err
			}
			return "it is " + string(ns.Status.Phase), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

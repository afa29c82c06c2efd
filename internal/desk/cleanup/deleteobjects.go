package cleanup

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// prefix is the prefix of nadra's labels, annotations and taints.
const prefix = "nadra.dev/"

// deleteAll returns a step that deletes objects.
func (u Uninstaller) deleteAll(objects []object) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, o := range objects {
			if err := u.delete(ctx, o); err != nil {
				return err
			}
		}
		return nil
	}
}

// delete deletes an object and its dependents. It ignores objects and APIs that do not
// exist.
func (u Uninstaller) delete(ctx context.Context, o object) error {
	client := u.Dynamic.Resource(o.Resource).Namespace(o.Namespace)
	_, err := client.Get(ctx, o.Name, metav1.GetOptions{})
	if err == nil {
		background := metav1.DeletePropagationBackground
		err = u.DryRun.Write(func() error {
			return client.Delete(ctx, o.Name, metav1.DeleteOptions{PropagationPolicy: &background, DryRun: u.DryRun.Options()})
		})
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("deleting %s: %w", o, err)
	case u.DryRun != "":
		u.Say("%s would be deleted", o)
	default:
		u.Say("deleted %s", o)
	}
	return nil
}

// deleteSlices deletes the driver's ResourceSlices, unless the kubelets were first.
func (u Uninstaller) deleteSlices(ctx context.Context) error {
	of := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(resourceapi.ResourceSliceSelectorDriver, v1alpha1.DriverName).String()}
	list, err := u.Kube.ResourceV1().ResourceSlices().List(ctx, of)
	if err != nil {
		return fmt.Errorf("listing ResourceSlices: %w", err)
	}
	for _, s := range list.Items {
		o := object{Kind: "ResourceSlice", Resource: resourceapi.SchemeGroupVersion.WithResource("resourceslices"), Name: s.Name}
		if err := u.delete(ctx, o); err != nil {
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
		err := u.removeMarksOf("node "+n.Name, patch, func(text []byte, o metav1.PatchOptions) error {
			_, err := u.Kube.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, text, o)
			return err
		})
		if err != nil {
			return err
		}
	}
	for i := range f.Namespaces {
		n := &f.Namespaces[i]
		if n.Name == u.Where.Driver { // it keeps the note until it is deleted
			continue
		}
		err := u.removeMarksOf("namespace "+n.Name, marksPatch(n.ObjectMeta), func(text []byte, o metav1.PatchOptions) error {
			_, err := u.Kube.CoreV1().Namespaces().Patch(ctx, n.Name, types.MergePatchType, text, o)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// removeMarksOf applies a patch of marksPatch to an object.
func (u Uninstaller) removeMarksOf(object string, patch map[string]any, do func([]byte, metav1.PatchOptions) error) error {
	if len(patch) == 0 {
		return nil
	}
	text, err := json.Marshal(patch)
	if err == nil {
		err = u.DryRun.Write(func() error { return do(text, metav1.PatchOptions{DryRun: u.DryRun.Options()}) })
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing nadra's labels, annotations and taints from %s: %w", object, err)
	}
	u.Say("%s: removed nadra's labels, annotations and taints", object)
	return nil
}

// marksPatch returns a patch that removes nadra's labels and annotations; empty if there are
// none.
func marksPatch(m metav1.ObjectMeta) map[string]any {
	off := func(all map[string]string) map[string]any {
		out := map[string]any{}
		for key := range maps.Keys(all) {
			if strings.HasPrefix(key, prefix) {
				out[key] = nil
			}
		}
		return out
	}
	meta := map[string]any{}
	if labels := off(m.Labels); len(labels) > 0 {
		meta["labels"] = labels
	}
	if annotations := off(m.Annotations); len(annotations) > 0 {
		meta["annotations"] = annotations
	}
	if len(meta) == 0 {
		return map[string]any{}
	}
	return map[string]any{"metadata": meta}
}

// withoutOurs returns the taints that are not nadra's.
func withoutOurs(taints []corev1.Taint) []corev1.Taint {
	out := []corev1.Taint{}
	for _, t := range taints {
		if !strings.HasPrefix(t.Key, prefix) {
			out = append(out, t)
		}
	}
	return out
}

// deleteNamespaces deletes both namespaces, unless they have pods of others, and waits until
// they are gone.
func (u Uninstaller) deleteNamespaces(ctx context.Context) error {
	if u.DryRun == "" {
		if err := u.Pods.Sweep(ctx, 0); err != nil {
			return err
		}
	}
	for _, o := range u.Where.last() {
		pods, err := u.Kube.CoreV1().Pods(o.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing pods of namespace %s: %w", o.Name, err)
		}
		if len(pods.Items) > 0 && u.DryRun == "" {
			u.Say("kept %s: it has other pods, for example %s", o, pods.Items[0].Name)
			continue
		}
		if err := u.delete(ctx, o); err != nil {
			return err
		}
		err = u.await(ctx, "the end of "+o.String(), func(ctx context.Context) (string, error) {
			ns, err := u.Kube.CoreV1().Namespaces().Get(ctx, o.Name, metav1.GetOptions{})
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

package upgrade

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// remain reports whether one of the namespaces is not nadra's yet. It ignores namespaces
// that are gone.
func (r *run) remain(ctx context.Context, names []string) (bool, error) {
	for _, name := range names {
		ns, err := r.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return false, &GateError{"namespace " + name, readError(err)}
		case ns.Labels[v1alpha1.OwnerLabel] != v1alpha1.OwnerNadra:
			return true, nil
		}
	}
	return false, nil
}

// hasNamespace reports whether the cluster has a namespace.
func (r *run) hasNamespace(ctx context.Context, name string) (bool, error) {
	_, err := r.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, readError(err)
	}
	return err == nil, nil
}

// assignAll labels namespaces for nadra.
func (r *run) assignAll(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := r.assignNamespace(ctx, name); err != nil {
			return &GateError{"namespace " + name, err}
		}
	}
	return nil
}

// assignNamespace labels a namespace for nadra, and first saves its original label.
// It does not touch running pods.
func (r *run) assignNamespace(ctx context.Context, name string) error {
	if err := r.mayContinue(ctx); err != nil {
		return err
	}
	ns, err := r.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		r.Say("namespace %s is gone", name)
		return nil
	}
	if err != nil {
		return readError(err)
	}
	if ns.Labels[v1alpha1.OwnerLabel] == v1alpha1.OwnerNadra {
		return nil
	}
	if _, known := r.state.Namespaces[name]; !known {
		r.state.Namespaces[name] = namespaceState{Owner: ns.Labels[v1alpha1.OwnerLabel]}
		if err := r.save(ctx); err != nil {
			return err
		}
	}
	if err := r.labelNamespace(ctx, name, v1alpha1.OwnerNadra); err != nil {
		return err
	}
	r.Say("namespace %s: nadra serves its new pods", name)
	return nil
}

// giveBackNamespace labels a namespace with an owner; an empty owner removes the label.
func (r *run) giveBackNamespace(ctx context.Context, name, owner string) error {
	if err := r.labelNamespace(ctx, name, owner); err != nil {
		return err
	}
	delete(r.state.Namespaces, name)
	r.Say("namespace %s: Multus serves its new pods", name)
	return r.save(ctx)
}

// labelNamespace patches the owner label. It ignores a namespace that is gone.
func (r *run) labelNamespace(ctx context.Context, name, owner string) error {
	return r.DryRun.Write(func() error {
		_, err := r.Kube.CoreV1().Namespaces().Patch(ctx, name, mergePatch, ownerPatch(owner), metav1.PatchOptions{DryRun: r.DryRun.Options()})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("labelling it: %w", err)
		}
		return nil
	})
}

package upgrade

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// namespaces labels namespaces with the owner of their new pods.
type namespaces struct {
	env
	journal *journal
}

// remain reports whether one of the namespaces is not nadra's yet. It ignores namespaces
// that are gone.
func (n *namespaces) remain(ctx context.Context, names []string) (bool, error) {
	for _, name := range names {
		ns, err := n.kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
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

// assignAll labels namespaces for nadra.
func (n *namespaces) assignAll(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := n.assign(ctx, name); err != nil {
			return &GateError{"namespace " + name, err}
		}
	}
	return nil
}

// assign labels a namespace for nadra, and first saves its original label.
// It does not touch running pods.
func (n *namespaces) assign(ctx context.Context, name string) error {
	if err := n.journal.mayContinue(ctx); err != nil {
		return err
	}
	ns, err := n.kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		n.say("namespace %s is gone", name)
		return nil
	}
	if err != nil {
		return readError(err)
	}
	if ns.Labels[v1alpha1.OwnerLabel] == v1alpha1.OwnerNadra {
		return nil
	}
	if _, known := n.journal.state.Namespaces[name]; !known {
		n.journal.state.Namespaces[name] = NamespaceState{Owner: ns.Labels[v1alpha1.OwnerLabel]}
		if err := n.journal.save(ctx); err != nil {
			return err
		}
	}
	if err := n.label(ctx, name, v1alpha1.OwnerNadra); err != nil {
		return err
	}
	n.say("namespace %s: nadra serves its new pods", name)
	return nil
}

// giveBack labels a namespace with an owner; an empty owner removes the label.
func (n *namespaces) giveBack(ctx context.Context, name, owner string) error {
	if err := n.label(ctx, name, owner); err != nil {
		return err
	}
	delete(n.journal.state.Namespaces, name)
	n.say("namespace %s: Multus serves its new pods", name)
	return n.journal.save(ctx)
}

// label patches the owner label. It ignores a namespace that is gone.
func (n *namespaces) label(ctx context.Context, name, owner string) error {
	return n.dry.write(func() error {
		_, err := n.kube.CoreV1().Namespaces().Patch(ctx, name, mergePatch, ownerPatch(owner), metav1.PatchOptions{DryRun: n.dry.options()})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("labelling it: %w", err)
		}
		return nil
	})
}

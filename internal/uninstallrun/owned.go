package uninstallrun

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/internal/owned"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// OwnedRemover deletes what the controller and admission have made and nobody
// uses. It reads from the API server, in pages.
type OwnedRemover struct {
	Client client.Client
	// Namespace is the controller's own, Secret its certificate's.
	Namespace, Secret string
	Out               io.Writer
	// All has also that deleted which pods refer to or claims ask for: nobody will
	// serve them any more. What somebody else has laid hands on is kept.
	All bool
	// DryRun only says what would be deleted; Client must be one for dry runs.
	DryRun bool

	kept int
}

// page is how many objects are asked for at a time.
const page = 500

// Run refuses while a controller runs, which would make all of it again. First
// the webhooks go, so that nothing new is made.
func (u *OwnedRemover) Run(ctx context.Context) error {
	if err := u.checkStopped(ctx); err != nil && !u.DryRun {
		return err
	}
	own := client.ObjectKey{Name: v1alpha1.Controller}
	for _, step := range []func() error{
		func() error { return u.deleteNamed(ctx, own, &admissionv1.MutatingWebhookConfiguration{}) },
		func() error { return u.deleteNamed(ctx, own, &admissionv1.ValidatingWebhookConfiguration{}) },
		func() error { return u.templates(ctx) },
		func() error { return u.classes(ctx) },
		func() error {
			return u.deleteManaged(ctx, client.ObjectKey{Namespace: u.Namespace, Name: u.Secret}, &corev1.Secret{})
		},
		func() error {
			return u.deleteNamed(ctx, client.ObjectKey{Namespace: u.Namespace, Name: v1alpha1.Controller}, &coordinationv1.Lease{})
		},
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if u.kept > 0 {
		u.say("%d objects are kept: run this again when they are not in use, or delete them by label %s=%s", u.kept, v1alpha1.ManagedByLabel, v1alpha1.Controller)
	}
	return nil
}

func (u *OwnedRemover) say(format string, args ...any) { fmt.Fprintf(u.Out, format+"\n", args...) }

// checkStopped looks at the leader's Lease.
func (u *OwnedRemover) checkStopped(ctx context.Context) error {
	var lease coordinationv1.Lease
	if err := u.Client.Get(ctx, client.ObjectKey{Namespace: u.Namespace, Name: v1alpha1.Controller}, &lease); err != nil {
		return client.IgnoreNotFound(err)
	}
	s := lease.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return nil
	}
	if time.Since(s.RenewTime.Time) < time.Duration(*s.LeaseDurationSeconds)*time.Second {
		return fmt.Errorf("the controller runs (%s): stop it first, by kubectl -n %s scale deployment/%s --replicas=0", *s.HolderIdentity, u.Namespace, v1alpha1.Controller)
	}
	return nil
}

// deleteManaged deletes an object if the controller has made it.
func (u *OwnedRemover) deleteManaged(ctx context.Context, key client.ObjectKey, o client.Object) error {
	if err := u.Client.Get(ctx, key, o); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !owned.Managed(o) {
		u.keep(o, "somebody else has made it")
		return nil
	}
	return u.delete(ctx, o)
}

func (u *OwnedRemover) deleteNamed(ctx context.Context, key client.ObjectKey, o client.Object) error {
	if err := u.Client.Get(ctx, key, o); err != nil {
		return client.IgnoreNotFound(err)
	}
	return u.delete(ctx, o)
}

// delete deletes the object that was read, and no other that has its name.
func (u *OwnedRemover) delete(ctx context.Context, o client.Object) error {
	err := u.Client.Delete(ctx, o, client.Preconditions(*kube.Exactly(o)))
	switch {
	case apierrors.IsConflict(err):
		u.keep(o, "it has changed just now")
		return nil
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("deleting %s: %w", u.title(o), err)
	}
	if u.DryRun {
		u.say("%s would be deleted", u.title(o))
		return nil
	}
	u.say("deleted %s", u.title(o))
	return nil
}

func (u *OwnedRemover) keep(o client.Object, why string) {
	u.kept++
	u.say("kept %s: %s", u.title(o), why)
}

func (u *OwnedRemover) title(o client.Object) string {
	kind := "object"
	if gvk, err := u.Client.GroupVersionKindFor(o); err == nil {
		kind = gvk.Kind
	}
	if o.GetNamespace() == "" {
		return kind + " " + o.GetName()
	}
	return kind + " " + o.GetNamespace() + "/" + o.GetName()
}

// templates go unless a pod refers to them.
func (u *OwnedRemover) templates(ctx context.Context) error {
	all := map[string][]*resourceapi.ResourceClaimTemplate{}
	var list resourceapi.ResourceClaimTemplateList
	err := u.each(ctx, &list, func() {
		for i := range list.Items {
			all[list.Items[i].Namespace] = append(all[list.Items[i].Namespace], list.Items[i].DeepCopy())
		}
	}, client.MatchingLabels{v1alpha1.ManagedByLabel: v1alpha1.Controller})
	if err != nil {
		return err
	}
	for _, namespace := range slices.Sorted(maps.Keys(all)) {
		users := map[string]string{}
		var pods corev1.PodList
		if err := u.each(ctx, &pods, func() {
			for i := range pods.Items {
				for _, name := range owned.TemplatesOf(&pods.Items[i].Spec) {
					users[name] = pods.Items[i].Name
				}
			}
		}, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, t := range all[namespace] {
			if err := u.template(ctx, t, users[t.Name]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *OwnedRemover) template(ctx context.Context, t *resourceapi.ResourceClaimTemplate, user string) error {
	switch {
	case user != "" && !u.All:
		u.keep(t, "pod "+user+" refers to it")
		return nil
	case !owned.Collectable(t):
		u.keep(t, "somebody else has laid hands on it")
		return nil
	}
	return u.delete(ctx, t)
}

// classes go unless a claim or a template asks for them.
func (u *OwnedRemover) classes(ctx context.Context) error {
	users := map[string]string{}
	note := func(o client.Object, spec resourceapi.ResourceClaimSpec) {
		for _, class := range owned.ClassesIn(spec) {
			users[class] = u.title(o)
		}
	}
	var claims resourceapi.ResourceClaimList
	if err := u.each(ctx, &claims, func() {
		for i := range claims.Items {
			note(&claims.Items[i], claims.Items[i].Spec)
		}
	}); err != nil {
		return err
	}
	var templates resourceapi.ResourceClaimTemplateList
	if err := u.each(ctx, &templates, func() {
		for i := range templates.Items {
			note(&templates.Items[i], templates.Items[i].Spec.Spec)
		}
	}); err != nil {
		return err
	}
	var classes resourceapi.DeviceClassList
	if err := u.Client.List(ctx, &classes, client.MatchingLabels{v1alpha1.ManagedByLabel: v1alpha1.Controller}); err != nil {
		return fmt.Errorf("listing classes: %w", err)
	}
	for i := range classes.Items {
		class := &classes.Items[i]
		if user := users[class.Name]; user != "" && !u.All {
			u.keep(class, user+" asks for it")
		} else if err := u.delete(ctx, class); err != nil {
			return err
		}
	}
	return nil
}

// each lists in pages and has do look at each.
func (u *OwnedRemover) each(ctx context.Context, list client.ObjectList, do func(), options ...client.ListOption) error {
	for {
		all := append(slices.Clone(options), client.Limit(page), client.Continue(list.GetContinue()))
		if err := u.Client.List(ctx, list, all...); err != nil {
			return fmt.Errorf("listing %T: %w", list, err)
		}
		do()
		if list.GetContinue() == "" {
			return nil
		}
	}
}

package installation

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// Remover deletes what the controller and admission created and nothing uses.
type Remover struct {
	Client client.Client
	// Namespace is the controller's own, Secret its certificate's.
	Namespace, Secret string
	Out               io.Writer
	// All also deletes objects that pods or claims refer to, for when nadra will not
	// serve them any more. Objects that were modified are kept all the same.
	All bool
	// DryRun only reports what would be deleted; Client must be a dry-run client.
	DryRun bool

	kept int
}

// Run deletes the objects. It fails while a controller runs, which would recreate them. It
// deletes the webhooks first, so that no new object is created.
func (u *Remover) Run(ctx context.Context) error {
	if !u.DryRun {
		if err := u.checkStopped(ctx); err != nil {
			return err
		}
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
		u.say("%d objects are kept: run this again when they are unused, or delete them by label %s=%s", u.kept, v1alpha1.ManagedByLabel, v1alpha1.Controller)
	}
	return nil
}

func (u *Remover) say(format string, args ...any) { fmt.Fprintf(u.Out, format+"\n", args...) }

// leasePoll is how often checkStopped reads the leader's Lease.
const leasePoll = time.Second

// checkStopped fails if a controller runs: if it renews the leader's Lease. A controller that
// ended has released the Lease; one that was killed has not, and then checkStopped waits as
// long as the Lease lasts. It compares no times, because the leader's clock may be another.
func (u *Remover) checkStopped(ctx context.Context) error {
	first, err := u.heldLease(ctx)
	if err != nil || first == nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, leasePoll, time.Duration(*first.LeaseDurationSeconds)*time.Second, true, func(ctx context.Context) (bool, error) {
		now, err := u.heldLease(ctx)
		switch {
		case err != nil || now == nil:
			return true, err
		case *now.HolderIdentity == *first.HolderIdentity && now.RenewTime.Equal(first.RenewTime):
			return false, nil
		}
		return true, reason.Errorf(reason.ControllerRunning, "the controller runs (%s): stop it with kubectl -n %s scale deployment/%s --replicas=0", *now.HolderIdentity, u.Namespace, v1alpha1.Controller)
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return nil // nobody has renewed it
	}
	return err
}

// heldLease returns the leader's Lease, or nil if it is released or missing.
func (u *Remover) heldLease(ctx context.Context) (*coordinationv1.LeaseSpec, error) {
	var lease coordinationv1.Lease
	if err := u.Client.Get(ctx, client.ObjectKey{Namespace: u.Namespace, Name: v1alpha1.Controller}, &lease); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	s := &lease.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return nil, nil
	}
	return s, nil
}

// deleteManaged deletes an object if the controller created it.
func (u *Remover) deleteManaged(ctx context.Context, key client.ObjectKey, o client.Object) error {
	if err := u.Client.Get(ctx, key, o); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !translate.Managed(o) {
		u.keep(o, "the controller did not create it")
		return nil
	}
	return u.delete(ctx, o)
}

// deleteNamed deletes an object that only the controller creates.
func (u *Remover) deleteNamed(ctx context.Context, key client.ObjectKey, o client.Object) error {
	if err := u.Client.Get(ctx, key, o); err != nil {
		return client.IgnoreNotFound(err)
	}
	return u.delete(ctx, o)
}

// delete deletes exactly the object that was read.
func (u *Remover) delete(ctx context.Context, o client.Object) error {
	err := u.Client.Delete(ctx, o, client.Preconditions(*kube.Exactly(o)))
	switch {
	case apierrors.IsConflict(err):
		u.keep(o, "it changed meanwhile")
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

// keep reports an object that is kept, and counts it.
func (u *Remover) keep(o client.Object, why string) {
	u.kept++
	u.say("kept %s: %s", u.title(o), why)
}

// title returns kind and name of an object.
func (u *Remover) title(o client.Object) string {
	kind := "object"
	if gvk, err := u.Client.GroupVersionKindFor(o); err == nil {
		kind = gvk.Kind
	}
	if o.GetNamespace() == "" {
		return kind + " " + o.GetName()
	}
	return kind + " " + o.GetNamespace() + "/" + o.GetName()
}

// templates deletes templates that no pod refers to.
func (u *Remover) templates(ctx context.Context) error {
	all := map[string][]*resourceapi.ResourceClaimTemplate{}
	err := each(ctx, u.Client, &resourceapi.ResourceClaimTemplateList{},
		func(t *resourceapi.ResourceClaimTemplate) { all[t.Namespace] = append(all[t.Namespace], t) },
		client.MatchingLabels{v1alpha1.ManagedByLabel: v1alpha1.Controller})
	if err != nil {
		return err
	}
	for _, namespace := range slices.Sorted(maps.Keys(all)) {
		users := map[string]string{}
		err := each(ctx, u.Client, &corev1.PodList{}, func(p *corev1.Pod) {
			for _, name := range translate.TemplatesOf(&p.Spec) {
				users[name] = p.Name
			}
		}, client.InNamespace(namespace))
		if err != nil {
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

// template deletes a template, unless it is in use or was modified.
func (u *Remover) template(ctx context.Context, t *resourceapi.ResourceClaimTemplate, user string) error {
	switch {
	case user != "" && !u.All:
		u.keep(t, "pod "+user+" refers to it")
		return nil
	case !translate.Collectable(t):
		u.keep(t, "it was modified")
		return nil
	}
	return u.delete(ctx, t)
}

// classes deletes DeviceClasses that no claim or template requests.
func (u *Remover) classes(ctx context.Context) error {
	users := map[string]string{}
	add := func(o client.Object, spec resourceapi.ResourceClaimSpec) {
		for _, class := range translate.ClassesIn(spec) {
			users[class] = u.title(o)
		}
	}
	err := each(ctx, u.Client, &resourceapi.ResourceClaimList{}, func(c *resourceapi.ResourceClaim) { add(c, c.Spec) })
	if err != nil {
		return err
	}
	err = each(ctx, u.Client, &resourceapi.ResourceClaimTemplateList{}, func(t *resourceapi.ResourceClaimTemplate) { add(t, t.Spec.Spec) })
	if err != nil {
		return err
	}
	var classes []*resourceapi.DeviceClass
	err = each(ctx, u.Client, &resourceapi.DeviceClassList{}, func(c *resourceapi.DeviceClass) { classes = append(classes, c) },
		client.MatchingLabels{v1alpha1.ManagedByLabel: v1alpha1.Controller})
	if err != nil {
		return err
	}
	for _, class := range classes {
		if user := users[class.Name]; user != "" && !u.All {
			u.keep(class, user+" requests it")
		} else if err := u.delete(ctx, class); err != nil {
			return err
		}
	}
	return nil
}

// each calls do for every object of a kind, page by page. empty is an empty list of the
// kind.
func each[T any](ctx context.Context, c client.Reader, empty client.ObjectList, do func(*T), options ...client.ListOption) error {
	pages := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		list := empty.DeepCopyObject().(client.ObjectList)
		all := append(slices.Clone(options), client.Limit(o.Limit), client.Continue(o.Continue))
		return list, c.List(ctx, list, all...)
	}
	if err := kube.EachItem(ctx, metav1.ListOptions{}, pages, do); err != nil {
		return fmt.Errorf("listing %T: %w", empty, err)
	}
	return nil
}

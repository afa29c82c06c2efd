package installation

import (
	"context"
	"fmt"
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

// Remover deletes objects of nadra.
type Remover struct {
	Client client.Client
	// Namespace is the controller's own, Secret its certificate's.
	Namespace, Secret string
	// Say reports what is deleted, and what is kept and why.
	Say func(format string, args ...any)
	// All also deletes objects that pods or claims refer to, for when nadra will not
	// serve them any more. Objects that were modified are kept all the same.
	All    bool
	DryRun kube.DryRun

	kept int
}

// Run deletes what the controller and admission created and nothing uses. It fails while a controller runs, which would
// recreate the objects. It deletes the webhooks first, so that no new object is created.
func (u *Remover) Run(ctx context.Context) error {
	if u.DryRun == "" {
		if err := u.checkStopped(ctx); err != nil {
			return err
		}
	}
	own := metav1.ObjectMeta{Name: v1alpha1.Controller}
	webhooks := []client.Object{&admissionv1.MutatingWebhookConfiguration{ObjectMeta: own}, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: own}}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: u.Namespace, Name: v1alpha1.Controller}}
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return u.Delete(ctx, webhooks...) },
		u.templates,
		u.classes,
		u.secret,
		func(ctx context.Context) error { return u.Delete(ctx, lease) },
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if u.kept > 0 {
		u.Say("%d objects are kept: run this again when they are unused, or delete them by label %s=%s", u.kept, v1alpha1.ManagedByLabel, v1alpha1.Controller)
	}
	return nil
}

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

// secret deletes the certificate's Secret if the controller created it.
func (u *Remover) secret(ctx context.Context) error {
	o := &corev1.Secret{}
	if err := u.Client.Get(ctx, client.ObjectKey{Namespace: u.Namespace, Name: u.Secret}, o); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !translate.Managed(o) {
		u.keep(o, "the controller did not create it")
		return nil
	}
	return u.deleteUnchanged(ctx, o)
}

// deleteUnchanged deletes exactly the object that was read.
func (u *Remover) deleteUnchanged(ctx context.Context, o client.Object) error {
	err := u.delete(ctx, o, client.Preconditions(*kube.Exactly(o)))
	if apierrors.IsConflict(err) {
		u.keep(o, "it changed meanwhile")
		return nil
	}
	return err
}

// Delete deletes objects and, in the background, their dependents. It ignores objects that are gone.
func (u *Remover) Delete(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		if err := u.delete(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes an object. A dry run of the client reads it, to report only what exists.
func (u *Remover) delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	background := metav1.DeletePropagationBackground
	options = append(options, &client.DeleteOptions{PropagationPolicy: &background, DryRun: u.DryRun.Options()})
	var err error
	if u.DryRun == "client" {
		err = u.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
	} else {
		err = u.Client.Delete(ctx, o, options...)
	}
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("deleting %s: %w", u.title(o), err)
	case u.DryRun != "":
		u.Say("%s would be deleted", u.title(o))
	default:
		u.Say("deleted %s", u.title(o))
	}
	return nil
}

// keep reports an object that is kept, and counts it.
func (u *Remover) keep(o client.Object, why string) {
	u.kept++
	u.Say("kept %s: %s", u.title(o), why)
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
	return u.deleteUnchanged(ctx, t)
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
		} else if err := u.deleteUnchanged(ctx, class); err != nil {
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

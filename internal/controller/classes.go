package controller

import (
	"context"
	"fmt"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/internal/owned"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// classes keeps the DeviceClasses in step with the NADs. Its keys are names of
// classes, so that a class whose NAD went while nobody looked is found, too: at
// start there is an event for each.
type classes struct {
	client.Client
	pools  bool
	events events.EventRecorder
}

func (r *classes) setUp(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("classes").
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Watches(&nadv1.NetworkAttachmentDefinition{}, handler.EnqueueRequestsFromMapFunc(r.keysOf)).
		Watches(&resourceapi.DeviceClass{}, handler.EnqueueRequestsFromMapFunc(r.ownKeys)).
		Complete(r)
}

// keysOf are a NAD's. Of an update the old object counts as well: it may have
// drawn from another pool.
func (r *classes) keysOf(_ context.Context, nad client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, name := range classesOf(nad, r.pools) {
		out = append(out, request("", name))
	}
	return out
}

// ownKeys are those of a class. One that serves a pool may be in the place of
// ours, or have been.
func (r *classes) ownKeys(_ context.Context, o client.Object) []reconcile.Request {
	class, ok := o.(*resourceapi.DeviceClass)
	if !ok {
		return nil
	}
	var out []reconcile.Request
	if _, ours := attachment.ClassNetwork(class.Name); ours || owned.Managed(class) {
		out = append(out, request("", class.Name))
	}
	if pool := class.Spec.ExtendedResourceName; r.pools && pool != nil && poolClassName(*pool) != class.Name {
		out = append(out, request("", poolClassName(*pool)))
	}
	return out
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}
}

// Reconcile makes one class what it should be.
func (r *classes) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	there := &resourceapi.DeviceClass{}
	if err := r.Get(ctx, req.NamespacedName, there); apierrors.IsNotFound(err) {
		there = nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	want, err := r.wanted(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	what, object := decide(want, there)
	if err := r.do(ctx, what, object); err != nil {
		return reconcile.Result{}, settled(fmt.Errorf("keeping class %s: %s: %w", req.Name, what, err))
	}
	if what != leave {
		log.FromContext(ctx).Info("DeviceClass kept in step", "class", req.Name, "action", what)
	}
	return reconcile.Result{}, nil
}

// wanted is the class of this name that the NADs need.
func (r *classes) wanted(ctx context.Context, name string) (*resourceapi.DeviceClass, error) {
	var nads nadv1.NetworkAttachmentDefinitionList
	if err := r.List(ctx, &nads, client.MatchingFields{byClass: name}); err != nil {
		return nil, fmt.Errorf("listing the NADs of class %s: %w", name, err)
	}
	for i := range nads.Items {
		nad := &nads.Items[i]
		if !nad.DeletionTimestamp.IsZero() {
			continue
		}
		class, remark, err := r.classFor(ctx, nad, name)
		if err != nil {
			return nil, err
		}
		r.tell(nad, remark)
		if class != nil {
			return class, nil
		}
	}
	return nil, nil
}

func (r *classes) classFor(ctx context.Context, nad *nadv1.NetworkAttachmentDefinition, name string) (*resourceapi.DeviceClass, *remark, error) {
	pool := attachment.PoolOf(nad.Annotations)
	if !r.pools || pool == "" || poolClassName(pool) != name {
		class, remark := networkClass(nad, r.pools)
		return class, remark, nil
	}
	var others resourceapi.DeviceClassList
	if err := r.List(ctx, &others); err != nil {
		return nil, nil, fmt.Errorf("listing classes: %w", err)
	}
	class, remark := poolClass(pool, others.Items)
	return class, remark, nil
}

func (r *classes) tell(nad *nadv1.NetworkAttachmentDefinition, m *remark) {
	if m == nil {
		return
	}
	kind := corev1.EventTypeNormal
	if m.warning {
		kind = corev1.EventTypeWarning
	}
	r.events.Eventf(nad, nil, kind, m.reason, "KeepDeviceClass", "%s", m.text)
}

func (r *classes) do(ctx context.Context, what action, class *resourceapi.DeviceClass) error {
	switch what {
	case create:
		return r.Create(ctx, class)
	case update:
		return r.Update(ctx, class)
	case remove:
		return r.Delete(ctx, class, client.Preconditions(*kube.Exactly(class)))
	}
	return nil
}

// settled is nil for an error which says that the cache is behind: the change
// that made it so is an event to come, and with it another try.
func settled(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

package controller

import (
	"context"
	"fmt"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// classes keeps the DeviceClasses up to date with the NADs. Its keys are names of classes, so that it
// also finds a class whose NAD was deleted while no controller ran: at the start there is an event for
// each class.
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

// keysOf returns the classes that a NAD may need, and those of other NADs with the same ID. It is also called
// with the old object of an update, which may have drawn from another pool.
func (r *classes) keysOf(ctx context.Context, nad client.Object) []reconcile.Request {
	names := classesOf(nad, r.pools)
	others, err := r.sameID(ctx, nad)
	if err != nil { // the cache has no such index: reconciling fails, too
		log.FromContext(ctx).Error(err, "Networks with the ID of a changed one are not reconciled", "network", klog.KObj(nad))
	}
	for _, other := range others {
		names = append(names, classesOf(other, r.pools)...)
	}
	var out []reconcile.Request
	for _, name := range names {
		out = append(out, request("", name))
	}
	return out
}

// sameID returns the NADs with the ID of a NAD.
func (r *classes) sameID(ctx context.Context, nad client.Object) ([]*nadv1.NetworkAttachmentDefinition, error) {
	var list nadv1.NetworkAttachmentDefinitionList
	if err := r.List(ctx, &list, client.MatchingFields{byID: idOf(nad)[0]}); err != nil {
		return nil, fmt.Errorf("listing the NADs with the ID of %s/%s: %w", nad.GetNamespace(), nad.GetName(), err)
	}
	return pointers(list.Items), nil
}

// pointers returns the addresses of items.
func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

// ownKeys returns the classes to reconcile after a change of a class. A class that serves a pool may
// replace nadra's class of the pool, or have replaced it.
func (r *classes) ownKeys(_ context.Context, o client.Object) []reconcile.Request {
	class, ok := o.(*resourceapi.DeviceClass)
	if !ok {
		return nil
	}
	var out []reconcile.Request
	if _, ours := attachment.ClassNetwork(class.Name); ours || translate.Managed(class) {
		out = append(out, request("", class.Name))
	}
	if pool := class.Spec.ExtendedResourceName; r.pools && pool != nil && poolClassName(*pool) != class.Name {
		out = append(out, request("", poolClassName(*pool)))
	}
	return out
}

// request returns the key of an object.
func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}
}

// Reconcile creates, updates or deletes one class.
func (r *classes) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	existing := &resourceapi.DeviceClass{}
	if err := r.Get(ctx, req.NamespacedName, existing); apierrors.IsNotFound(err) {
		existing = nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	want, err := r.wanted(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	what, object := decide(want, existing)
	if err := r.do(ctx, what, object); err != nil {
		return reconcile.Result{}, ignoreStale(fmt.Errorf("maintaining DeviceClass %s: %s: %w", req.Name, what, err))
	}
	if what != leave {
		log.FromContext(ctx).Info("Updated a DeviceClass", "class", req.Name, "action", what)
	}
	return reconcile.Result{}, nil
}

// wanted returns the class of a name that the NADs need, or nil.
func (r *classes) wanted(ctx context.Context, name string) (*resourceapi.DeviceClass, error) {
	var nads nadv1.NetworkAttachmentDefinitionList
	if err := r.List(ctx, &nads, client.MatchingFields{byClass: name}); err != nil {
		return nil, fmt.Errorf("listing the NADs of DeviceClass %s: %w", name, err)
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
		r.emit(nad, remark)
		if class != nil {
			return class, nil
		}
	}
	return nil, nil
}

// classFor returns the class of a name that one NAD needs.
func (r *classes) classFor(ctx context.Context, nad *nadv1.NetworkAttachmentDefinition, name string) (*resourceapi.DeviceClass, *remark, error) {
	pool := attachment.PoolOf(nad.Annotations)
	if !r.pools || pool == "" || poolClassName(pool) != name {
		sameID, err := r.sameID(ctx, nad)
		if err != nil {
			return nil, nil, err
		}
		class, remark := networkClass(nad, sameID, r.pools)
		return class, remark, nil
	}
	var others resourceapi.DeviceClassList
	if err := r.List(ctx, &others); err != nil {
		return nil, nil, fmt.Errorf("listing DeviceClasses: %w", err)
	}
	class, remark := poolClass(pool, others.Items)
	return class, remark, nil
}

// emit emits an event about a NAD.
func (r *classes) emit(nad *nadv1.NetworkAttachmentDefinition, m *remark) {
	if m == nil {
		return
	}
	kind := corev1.EventTypeNormal
	if m.warning {
		kind = corev1.EventTypeWarning
	}
	r.events.Eventf(nad, nil, kind, m.reason, "KeepDeviceClass", "%s", m.text)
}

// do performs an action.
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

// ignoreStale returns nil for an error that shows that the cache is behind. The event of the change will
// cause another attempt.
func ignoreStale(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

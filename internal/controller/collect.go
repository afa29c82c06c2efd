package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/internal/owned"
)

// collector deletes templates of admission to which no pod has referred for a while. Admission
// recreates a template when a pod needs it again. A pod that is admitted during the deletion refers to
// a missing template, which repairer recreates.
type collector struct {
	client.Client
	pods      client.Reader
	podSource podSource
	grace     time.Duration
	now       func() time.Time

	// idle has the time since when no pod refers to a template. Only the single worker uses it.
	// After a restart it is empty, and the templates stay a while longer. No time of the API
	// server counts, whose clock may be another.
	idle map[client.ObjectKey]idleTemplate
}

// idleTemplate is a template to which no pod refers. Another with its name has another UID.
type idleTemplate struct {
	uid   types.UID
	since time.Time
}

func (r *collector) setUp(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("templates").
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		For(&resourceapi.ResourceClaimTemplate{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool { return owned.Managed(o) }))).
		WatchesRawSource(r.podSource(handler.EnqueueRequestsFromMapFunc(templateKeys), createdOrDeleted)).
		Complete(r)
}

// createdOrDeleted skips updates of pods, because their references cannot change.
var createdOrDeleted = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

// templateKeys returns the templates to which a pod refers.
func templateKeys(_ context.Context, pod client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, name := range podTemplates(pod) {
		out = append(out, request(pod.GetNamespace(), name))
	}
	return out
}

// Reconcile deletes one template, or returns when to check it again.
func (r *collector) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var template resourceapi.ResourceClaimTemplate
	if err := r.Get(ctx, req.NamespacedName, &template); err != nil {
		delete(r.idle, req.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var pods corev1.PodList
	if err := r.pods.List(ctx, &pods, client.InNamespace(req.Namespace), client.MatchingFields{byTemplate: req.Name}); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing the pods of ResourceClaimTemplate %s: %w", req, err)
	}
	if len(pods.Items) > 0 || !owned.Collectable(&template) {
		delete(r.idle, req.NamespacedName)
		return reconcile.Result{}, nil
	}
	if wait := r.wait(&template); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := r.Delete(ctx, &template, client.Preconditions(*kube.Exactly(&template))); err != nil {
		return reconcile.Result{}, ignoreStale(fmt.Errorf("deleting ResourceClaimTemplate %s: %w", req, err))
	}
	delete(r.idle, req.NamespacedName)
	log.FromContext(ctx).Info("Deleted an unused ResourceClaimTemplate", "template", klog.KObj(&template))
	return reconcile.Result{}, nil
}

// wait returns how long an unused template stays.
func (r *collector) wait(t *resourceapi.ResourceClaimTemplate) time.Duration {
	if r.idle == nil {
		r.idle = map[client.ObjectKey]idleTemplate{}
	}
	key := client.ObjectKeyFromObject(t)
	idle, known := r.idle[key]
	if !known || idle.uid != t.UID {
		idle = idleTemplate{t.UID, r.now()}
		r.idle[key] = idle
	}
	return idle.since.Add(r.grace).Sub(r.now())
}

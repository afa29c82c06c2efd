package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
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
	"github.com/nadra-dev/nadra/pkg/translate"
)

// collector deletes templates of converted pods to which no pod has referred for a while, and the oldest
// of those before if a namespace has many: whoever may create pods could make templates pile up.
// templateMaker creates a template again when a pod needs it.
type collector struct {
	client.Client
	pods      client.Reader
	podSource podSource
	grace     time.Duration
	now       func() time.Time

	// idle has the time since when no pod refers to a template, by namespace and name. Only the single
	// worker uses it. After a restart it is empty, and the templates stay a while longer. No time of
	// the API server counts, whose clock may be another.
	idle map[string]map[string]idleTemplate
}

// maxIdle is the number of templates of a namespace that may wait without a pod.
const maxIdle = 100

// idleTemplate is a template to which no pod refers. Another with its name has another UID.
type idleTemplate struct {
	uid   types.UID
	since time.Time
}

func (r *collector) setUp(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("templates").
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		For(&resourceapi.ResourceClaimTemplate{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool { return translate.Managed(o) }))).
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
		r.forget(req)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var pods corev1.PodList
	if err := r.pods.List(ctx, &pods, client.InNamespace(req.Namespace), client.MatchingFields{byTemplate: req.Name}); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing the pods of ResourceClaimTemplate %s: %w", req, err)
	}
	if len(pods.Items) > 0 || !translate.Collectable(&template) {
		r.forget(req)
		return reconcile.Result{}, nil
	}
	if wait := r.wait(&template); wait > 0 {
		if err := r.trim(ctx, req.Namespace); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := r.Delete(ctx, &template, client.Preconditions(*kube.Exactly(&template))); err != nil {
		return reconcile.Result{}, ignoreStale(fmt.Errorf("deleting ResourceClaimTemplate %s: %w", req, err))
	}
	r.forget(req)
	log.FromContext(ctx).Info("Deleted an unused ResourceClaimTemplate", "template", klog.KObj(&template))
	return reconcile.Result{}, nil
}

// wait returns how long an unused template stays.
func (r *collector) wait(t *resourceapi.ResourceClaimTemplate) time.Duration {
	if r.idle == nil {
		r.idle = map[string]map[string]idleTemplate{}
	}
	if r.idle[t.Namespace] == nil {
		r.idle[t.Namespace] = map[string]idleTemplate{}
	}
	idle, known := r.idle[t.Namespace][t.Name]
	if !known || idle.uid != t.UID {
		idle = idleTemplate{t.UID, r.now()}
		r.idle[t.Namespace][t.Name] = idle
	}
	return idle.since.Add(r.grace).Sub(r.now())
}

// forget removes a template from the unused ones.
func (r *collector) forget(req reconcile.Request) {
	delete(r.idle[req.Namespace], req.Name)
	if len(r.idle[req.Namespace]) == 0 {
		delete(r.idle, req.Namespace)
	}
}

// trim ends the wait of the longest unused template of a namespace that has more than maxIdle.
func (r *collector) trim(ctx context.Context, namespace string) error {
	unused := r.idle[namespace]
	if len(unused) <= maxIdle {
		return nil
	}
	oldest := slices.MinFunc(slices.Collect(maps.Keys(unused)), func(a, b string) int { return unused[a].since.Compare(unused[b].since) })
	unused[oldest] = idleTemplate{unused[oldest].uid, r.now().Add(-r.grace)}
	_, err := r.Reconcile(ctx, request(namespace, oldest))
	return err
}

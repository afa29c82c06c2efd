package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
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

// collector deletes the templates of admission that no pod has referred to for
// a while. Whoever needs one again makes the same again. A pod that is admitted
// in the very moment of a deletion refers to what is not there any more; repairer
// makes it anew.
type collector struct {
	client.Client
	grace time.Duration
	now   func() time.Time

	// idle has since when nobody was seen to refer to a template. There is one
	// worker only, and nobody else looks at it. A restart forgets, and the
	// templates stay a while longer.
	idle map[client.ObjectKey]time.Time
}

func (r *collector) setUp(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("templates").
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		For(&resourceapi.ResourceClaimTemplate{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool { return owned.Managed(o) }))).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(templateKeys), builder.WithPredicates(comesOrGoes)).
		Complete(r)
}

// comesOrGoes is all that matters about pods: what they refer to cannot change.
var comesOrGoes = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

func templateKeys(_ context.Context, pod client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, name := range podTemplates(pod) {
		out = append(out, request(pod.GetNamespace(), name))
	}
	return out
}

// Reconcile deletes one template, or says when to look again.
func (r *collector) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var template resourceapi.ResourceClaimTemplate
	if err := r.Get(ctx, req.NamespacedName, &template); err != nil {
		delete(r.idle, req.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.InNamespace(req.Namespace), client.MatchingFields{byTemplate: req.Name}); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing the pods of template %s: %w", req, err)
	}
	if len(pods.Items) > 0 || !owned.Collectable(&template) {
		delete(r.idle, req.NamespacedName)
		return reconcile.Result{}, nil
	}
	if wait := r.wait(&template); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := r.Delete(ctx, &template, client.Preconditions(*kube.Exactly(&template))); err != nil {
		return reconcile.Result{}, settled(fmt.Errorf("deleting template %s: %w", req, err))
	}
	delete(r.idle, req.NamespacedName)
	log.FromContext(ctx).Info("ResourceClaimTemplate deleted: no pod refers to it", "template", req.String())
	return reconcile.Result{}, nil
}

// wait is how long a template without pods is still to stay.
func (r *collector) wait(t *resourceapi.ResourceClaimTemplate) time.Duration {
	if r.idle == nil {
		r.idle = map[client.ObjectKey]time.Time{}
	}
	key := client.ObjectKeyFromObject(t)
	since, known := r.idle[key]
	if !known {
		since = r.now()
		r.idle[key] = since
	}
	if t.CreationTimestamp.After(since) {
		since = t.CreationTimestamp.Time
	}
	return since.Add(r.grace).Sub(r.now())
}

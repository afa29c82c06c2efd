package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nadra-dev/nadra/internal/owned"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// repairer makes a template again that a waiting pod refers to and that is not
// there: it was collected as the pod was admitted, or somebody deleted it. The
// pod says what was in it, by the annotation that admission leaves as it is.
type repairer struct {
	client.Client
	// live reads from the API server: the cache has no whole pods.
	live   client.Reader
	pools  bool
	events events.EventRecorder
	now    func() time.Time
}

// cacheLag is how much later than its pod a template may be seen: they come by
// different watches.
const cacheLag = 2 * time.Second

func (r *repairer) setUp(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("repair").
		For(&corev1.Pod{}, builder.WithPredicates(comesOrGoes, predicate.NewPredicateFuncs(waits))).
		Watches(&resourceapi.ResourceClaimTemplate{}, handler.EnqueueRequestsFromMapFunc(r.podsOf), builder.WithPredicates(goes)).
		Complete(r)
}

// goes passes on what is deleted.
var goes = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(event.UpdateEvent) bool { return false },
}

// waits reports a pod that may still need its templates.
func waits(o client.Object) bool {
	pod, ok := o.(*corev1.Pod)
	return ok && pod.Spec.NodeName == "" && pod.DeletionTimestamp.IsZero() && len(owned.TemplatesOf(&pod.Spec)) > 0
}

func (r *repairer) podsOf(ctx context.Context, template client.Object) []reconcile.Request {
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.InNamespace(template.GetNamespace()), client.MatchingFields{byTemplate: template.GetName()}); err != nil {
		log.FromContext(ctx).Error(err, "listing the pods of a template that was deleted", "template", template.GetName())
		return nil
	}
	var out []reconcile.Request
	for i := range pods.Items {
		out = append(out, request(pods.Items[i].Namespace, pods.Items[i].Name))
	}
	return out
}

// Reconcile makes the templates that one pod lacks.
func (r *repairer) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var pod corev1.Pod
	if err := r.Get(ctx, req.NamespacedName, &pod); err != nil || !waits(&pod) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	missing, err := r.missing(ctx, &pod)
	if err != nil || len(missing) == 0 {
		return reconcile.Result{}, err
	}
	if wait := pod.CreationTimestamp.Add(cacheLag).Sub(r.now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := r.live.Get(ctx, req.NamespacedName, &pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	made, err := r.templatesFor(ctx, &pod)
	if err != nil {
		return reconcile.Result{}, err
	}
	for _, name := range missing {
		if err := r.repair(ctx, &pod, name, made[name]); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, nil
}

func (r *repairer) missing(ctx context.Context, pod *corev1.Pod) ([]string, error) {
	var out []string
	for _, name := range owned.TemplatesOf(&pod.Spec) {
		err := r.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, &resourceapi.ResourceClaimTemplate{})
		switch {
		case apierrors.IsNotFound(err):
			out = append(out, name)
		case err != nil:
			return nil, fmt.Errorf("looking for template %s/%s: %w", pod.Namespace, name, err)
		}
	}
	return out, nil
}

// templatesFor are the pod's by their names, which say their content: those
// that the rules make of it now are those that they made when it was admitted,
// or they have other names.
func (r *repairer) templatesFor(ctx context.Context, pod *corev1.Pod) (map[string]*resourceapi.ResourceClaimTemplate, error) {
	manifest, err := json.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("encoding pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	lookup := func(ref attachment.NetworkRef) *nadv1.NetworkAttachmentDefinition {
		nad := &nadv1.NetworkAttachmentDefinition{}
		if r.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, nad) != nil {
			return nil
		}
		return nad
	}
	out := map[string]*resourceapi.ResourceClaimTemplate{}
	// The names say as well whether admission took the pools for nadra's or for
	// another driver's, from which the pod has claims of its own.
	for _, server := range []translate.PoolServer{translate.PoolOfNadra, translate.PoolOfDriver} {
		result, err := translate.Pod(manifest, translate.Options{
			Namespace: pod.Namespace, Pools: r.pools, Lookup: lookup,
			PoolServer: func(string) translate.PoolFacts { return translate.PoolFacts{Server: server} },
		})
		if err != nil {
			return nil, err
		}
		for _, t := range result.Templates {
			out[t.Name] = t
		}
	}
	return out, nil
}

func (r *repairer) repair(ctx context.Context, pod *corev1.Pod, name string, template *resourceapi.ResourceClaimTemplate) error {
	if template == nil {
		r.events.Eventf(pod, nil, corev1.EventTypeWarning, "TemplateMissing", "RepairTemplate",
			"ResourceClaimTemplate %s is not there, and the pod's annotation does not say what was in it: create it, or delete the pod to have it admitted anew", name)
		return nil
	}
	template.Labels = map[string]string{v1alpha1.ManagedByLabel: v1alpha1.Controller}
	if err := r.Create(ctx, template); err != nil {
		return settled(fmt.Errorf("making template %s/%s again: %w", pod.Namespace, name, err))
	}
	log.FromContext(ctx).Info("ResourceClaimTemplate made again: a pod that waits refers to it", "template", pod.Namespace+"/"+name)
	return nil
}

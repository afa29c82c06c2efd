package controller

import (
	"context"
	"encoding/json"
	"fmt"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nadra-dev/nadra/internal/owned"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// repairer recreates a missing template to which a waiting pod refers: it was collected while the pod
// was admitted, or a user deleted it. The pod's annotation, with the default networks that admission
// has added, determines the content.
type repairer struct {
	client.Client
	pods      client.Reader
	podSource podSource
	// live reads from the API server, because the cache has no whole pods and is late.
	live   client.Reader
	pools  bool
	events events.EventRecorder
}

func (r *repairer) setUp(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("repair").
		WatchesRawSource(r.podSource(&handler.EnqueueRequestForObject{}, createdOrDeleted, predicate.NewPredicateFuncs(waits))).
		Watches(&resourceapi.ResourceClaimTemplate{}, handler.EnqueueRequestsFromMapFunc(r.podsOf), builder.WithPredicates(deleted)).
		Complete(r)
}

// deleted only passes deletions.
var deleted = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(event.UpdateEvent) bool { return false },
}

// waits reports whether a pod may still need its templates.
func waits(o client.Object) bool {
	pod, ok := o.(*corev1.Pod)
	return ok && pod.Spec.NodeName == "" && pod.DeletionTimestamp.IsZero() && len(owned.TemplatesOf(&pod.Spec)) > 0
}

// podsOf returns the pods that refer to a template.
func (r *repairer) podsOf(ctx context.Context, template client.Object) []reconcile.Request {
	var pods corev1.PodList
	if err := r.pods.List(ctx, &pods, client.InNamespace(template.GetNamespace()), client.MatchingFields{byTemplate: template.GetName()}); err != nil {
		log.FromContext(ctx).Error(err, "Listing the pods of a deleted ResourceClaimTemplate failed", "template", klog.KObj(template))
		return nil
	}
	var out []reconcile.Request
	for i := range pods.Items {
		out = append(out, request(pods.Items[i].Namespace, pods.Items[i].Name))
	}
	return out
}

// Reconcile recreates the missing templates of one pod.
func (r *repairer) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var pod corev1.Pod
	if err := r.pods.Get(ctx, req.NamespacedName, &pod); err != nil || !waits(&pod) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	missing, err := missingIn(ctx, r.Client, &pod)
	if err != nil || len(missing) == 0 {
		return reconcile.Result{}, err
	}
	// A template may appear in the cache later than its pod: they have different watches.
	if missing, err = missingIn(ctx, r.live, &pod); err != nil || len(missing) == 0 {
		return reconcile.Result{}, err
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

// missingIn returns the templates that a pod refers to and that a reader does not find.
func missingIn(ctx context.Context, reader client.Reader, pod *corev1.Pod) ([]string, error) {
	var out []string
	for _, name := range owned.TemplatesOf(&pod.Spec) {
		err := reader.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, &resourceapi.ResourceClaimTemplate{})
		switch {
		case apierrors.IsNotFound(err):
			out = append(out, name)
		case err != nil:
			return nil, fmt.Errorf("reading ResourceClaimTemplate %s/%s: %w", pod.Namespace, name, err)
		}
	}
	return out, nil
}

// templatesFor returns the templates of a pod by their names. The names are derived from the content, so
// a template with the right name has the content of the missing one.
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
	// The content also depends on whether nadra or another driver served the pools at admission.
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

// repair creates a template, or emits an event if its content is unknown.
func (r *repairer) repair(ctx context.Context, pod *corev1.Pod, name string, template *resourceapi.ResourceClaimTemplate) error {
	if template == nil {
		err := reason.Errorf(reason.TemplateNotFound, "ResourceClaimTemplate %s does not exist, and the pod's annotation does not determine its content: "+
			"create the template, or delete the pod so that its successor is admitted again", name)
		r.events.Eventf(pod, nil, corev1.EventTypeWarning, reason.EventTemplateMissing, "RepairTemplate", "%v", err)
		return nil
	}
	template.Labels = map[string]string{v1alpha1.ManagedByLabel: v1alpha1.Controller}
	if err := r.Create(ctx, template); err != nil {
		return ignoreStale(fmt.Errorf("recreating ResourceClaimTemplate %s/%s: %w", pod.Namespace, name, err))
	}
	log.FromContext(ctx).Info("Recreated a ResourceClaimTemplate of a waiting pod", "template", klog.KObj(template), "pod", klog.KObj(pod))
	return nil
}

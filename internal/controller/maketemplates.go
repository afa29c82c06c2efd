package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// TemplateSource returns the templates of an admitted pod that do not exist, by name, or why the pod
// would be refused now. The webhook's Decider is one.
type TemplateSource interface {
	Templates(context.Context, *corev1.Pod) (made map[string]*resourceapi.ResourceClaimTemplate, refusal string, err error)
}

// templateMaker creates the missing templates to which waiting pods refer. Admission creates none, because
// the pod may yet be refused. A template may also be missing because it was collected while a pod was
// admitted, or because a user deleted it.
type templateMaker struct {
	client.Client
	pods      client.Reader
	podSource podSource
	// live reads from the API server, because the cache has no whole pods.
	live   client.Reader
	source TemplateSource
	events events.EventRecorder
}

const (
	// makers is the number of pods that templateMaker looks at at a time.
	makers = 8
	// makeRetry is how long a pod waits at most for the next attempt to create its templates.
	makeRetry = 2 * time.Minute
)

func (r *templateMaker) setUp(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("make-templates").
		WithOptions(controller.Options{
			MaxConcurrentReconciles: makers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, makeRetry),
		}).
		WatchesRawSource(r.podSource(&handler.EnqueueRequestForObject{}, createdOrDeleted, predicate.NewPredicateFuncs(waits))).
		Watches(&resourceapi.ResourceClaimTemplate{}, handler.EnqueueRequestsFromMapFunc(r.podsOf), builder.WithPredicates(deleted)).
		Complete(r)
}

// deleted only passes deletions.
var deleted = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(event.UpdateEvent) bool { return false },
}

// waits reports whether a pod may still need its templates. Admission makes none for a pod with too many claims.
func waits(o client.Object) bool {
	pod, ok := o.(*corev1.Pod)
	return ok && pod.Spec.NodeName == "" && pod.DeletionTimestamp.IsZero() && len(pod.Spec.ResourceClaims) <= v1alpha1.MaxPodClaims && len(translate.TemplatesOf(&pod.Spec)) > 0
}

// podsOf returns the pods that refer to a template.
func (r *templateMaker) podsOf(ctx context.Context, template client.Object) []reconcile.Request {
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

// Reconcile creates the missing templates of one pod. Of a burst of pods with equal networks, only the
// first ones find their template missing.
func (r *templateMaker) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var cached, pod corev1.Pod
	if err := r.pods.Get(ctx, req.NamespacedName, &cached); err != nil || !waits(&cached) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	missing, err := r.missingOf(ctx, &cached)
	if err != nil || len(missing) == 0 {
		return reconcile.Result{}, err
	}
	// Whoever may create pods could name templates that nothing determines: retries wait for all other pods.
	retry := reconcile.Result{Priority: ptr.To(handler.LowPriority - 1)}
	if err := r.live.Get(ctx, req.NamespacedName, &pod); err != nil || pod.UID != cached.UID || !waits(&pod) {
		return retry, client.IgnoreNotFound(err)
	}
	made, refusal, err := r.source.Templates(ctx, &pod)
	if err != nil {
		return retry, err
	}
	// Both refusals and errors may pass: this replica's cache may be later than that of the one which admitted
	// the pod. The first error is enough for the pod's author.
	for _, name := range missing {
		if template := made[name]; template != nil {
			err = errors.Join(err, r.make(ctx, &pod, template))
		} else if err == nil {
			err = r.remark(ctx, &pod, name, refusal)
		}
	}
	return retry, err
}

// missingOf returns the templates that a pod refers to and that the cache does not have.
func (r *templateMaker) missingOf(ctx context.Context, pod *corev1.Pod) ([]string, error) {
	var out []string
	for _, name := range translate.TemplatesOf(&pod.Spec) {
		err := r.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, &resourceapi.ResourceClaimTemplate{})
		switch {
		case apierrors.IsNotFound(err):
			out = append(out, name)
		case err != nil:
			return nil, fmt.Errorf("reading ResourceClaimTemplate %s/%s: %w", pod.Namespace, name, err)
		}
	}
	return out, nil
}

// remark returns an error about a template whose content the pod does not determine, and emits it as an
// event. It returns none if the template exists, and only the cache is late.
func (r *templateMaker) remark(ctx context.Context, pod *corev1.Pod, name, refusal string) error {
	err := r.live.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, &resourceapi.ResourceClaimTemplate{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	why := "the pod's annotation does not determine its content"
	if refusal != "" {
		why = "the pod would be refused now: " + refusal
	}
	err = reason.Errorf(reason.TemplateNotFound, "ResourceClaimTemplate %s does not exist, and %s: "+
		"create the template, or delete the pod so that its successor is admitted again", name, why)
	r.warn(pod, err)
	return err
}

func (r *templateMaker) warn(pod *corev1.Pod, err error) {
	r.events.Eventf(pod, nil, corev1.EventTypeWarning, reason.EventTemplateMissing, "MakeTemplate", "%v", err)
}

// make creates a template, or emits an event about the error. The template may exist already: another pod
// needs it, too.
func (r *templateMaker) make(ctx context.Context, pod *corev1.Pod, template *resourceapi.ResourceClaimTemplate) error {
	template.Labels = map[string]string{v1alpha1.ManagedByLabel: v1alpha1.Controller}
	err := r.Create(ctx, template, client.FieldOwner(v1alpha1.Controller))
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case err != nil:
		err = reason.Errorf(reason.TemplateNotCreated, "creating ResourceClaimTemplate %s: %w%s", klog.KObj(template), err, remedy(err, pod.Namespace))
		r.warn(pod, err)
		return err
	}
	log.FromContext(ctx).Info("Created a ResourceClaimTemplate of a waiting pod", "template", klog.KObj(template), "pod", klog.KObj(pod))
	return nil
}

// remedy returns a remedy for a refusal of the API server, or "".
func remedy(err error, namespace string) string {
	switch {
	case strings.Contains(err.Error(), "exceeded quota"):
		return fmt.Sprintf(": raise count/resourceclaimtemplates.resource.k8s.io in the ResourceQuota of namespace %s, or delete unused templates", namespace)
	case apierrors.IsForbidden(err):
		return fmt.Sprintf(": allow %s's service account to create resourceclaimtemplates of resource.k8s.io in namespace %s", v1alpha1.Controller, namespace)
	}
	return ""
}

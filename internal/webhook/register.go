package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nadra-dev/nadra/pkg/admission"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// The paths of the webhooks.
const (
	MutatePodsPath     = "/mutate-pods"
	ValidateClaimsPath = "/validate-claims"
)

// Options are the options of the controller's command line.
type Options struct {
	admission.Options
	// Callers are the namespaces whose pods may call the webhooks, as agents that connect the API
	// server with the pods do.
	Callers []string
	// ClientNames are the names of client certificates of which a caller must have one. If there are
	// none, Callers decides.
	ClientNames []string
	// PodIP is the first address of the controller's pod, or empty. HostIP is that of its node, and
	// ServiceIP that of the service kubernetes. Routes that cover them are reported.
	PodIP, HostIP, ServiceIP string
}

// admission returns the options for pkg/admission.
func (o Options) admission() admission.Options {
	o.ClusterRanges = admission.ClusterRanges(map[string]string{"pods": o.PodIP, "nodes": o.HostIP, "services": o.ServiceIP})
	return o.Options
}

// AddToScheme adds the types that the webhooks read and write.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(nadv1.AddToScheme(s), corev1.AddToScheme(s), nodev1.AddToScheme(s), resourceapi.AddToScheme(s))
}

// Register registers the webhooks on a manager that is not started yet. It adds the objects that they
// read to the manager's scheme and cache, and a readiness check for the cache.
func Register(mgr manager.Manager, o Options, d *Decider) error {
	switch o.DefaultOwner {
	case "", v1alpha1.OwnerMultus, v1alpha1.OwnerNadra:
	default:
		return fmt.Errorf("registering webhooks: default owner %q is unknown: use %s or %s", o.DefaultOwner, v1alpha1.OwnerMultus, v1alpha1.OwnerNadra)
	}
	if err := AddToScheme(mgr.GetScheme()); err != nil {
		return fmt.Errorf("registering webhooks: adding types: %w", err)
	}
	if err := watch(mgr.GetCache()); err != nil {
		return fmt.Errorf("registering webhooks: %w", err)
	}
	if err := mgr.AddReadyzCheck("webhook-caches", synced(mgr.GetCache())); err != nil {
		return fmt.Errorf("registering webhooks: %w", err)
	}
	m, err := newMeters(metrics.Registry)
	if err != nil {
		return fmt.Errorf("registering webhooks: %w", err)
	}
	g := newGuard(mgr.GetAPIReader(), o)
	server := mgr.GetWebhookServer()
	server.Register(MutatePodsPath, g.protect(&ctrladmission.Webhook{Handler: m.measured(MutatePodsPath, &podHandler{decider: d, decided: m.decided})}))
	server.Register(ValidateClaimsPath, g.protect(&ctrladmission.Webhook{Handler: m.measured(ValidateClaimsPath, &claimHandler{isolation: o.Isolation})}))
	return nil
}

// cachedObjects returns the kinds of objects in the cache, only with their metadata for namespaces and nodes.
func cachedObjects() []client.Object {
	return []client.Object{
		&nadv1.NetworkAttachmentDefinition{}, &resourceapi.ResourceClaimTemplate{}, &nodev1.RuntimeClass{}, &resourceapi.DeviceClass{},
		metadataOf("Namespace"), metadataOf("Node"),
	}
}

// metadataOf returns an empty object with the metadata of a core kind.
func metadataOf(kind string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return m
}

// watch starts the informers of the cache, before the first request needs them.
func watch(c cache.Cache) error {
	for _, o := range cachedObjects() {
		if _, err := c.GetInformer(context.Background(), o, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watching %T: %w", o, err)
		}
	}
	return nil
}

// synced returns the readiness check.
func synced(c cache.Cache) func(*http.Request) error {
	return func(r *http.Request) error {
		for _, o := range cachedObjects() {
			informer, err := c.GetInformer(r.Context(), o, cache.BlockUntilSynced(false))
			if err != nil {
				return fmt.Errorf("reading the cache of %T: %w", o, err)
			}
			if !informer.HasSynced() {
				return fmt.Errorf("the cache of %T is not synced yet", o)
			}
		}
		return nil
	}
}

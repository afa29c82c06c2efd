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
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Where the API server finds the webhooks.
const (
	MutatePodsPath     = "/mutate-pods"
	ValidateClaimsPath = "/validate-claims"
)

// Options are those of the controller's command line.
type Options struct {
	// DefaultOwner serves pods of which no label says who does: v1alpha1.OwnerMultus,
	// which empty means, or v1alpha1.OwnerNadra.
	DefaultOwner string
	// Isolation says whose networks a pod may use. It should be the nodes'.
	Isolation attachment.Isolation
	// Pools says that the cluster serves pools of hardware devices.
	Pools bool
	// NoPodInfo leaves out the files about the pod that pods with a device of a
	// pool get.
	NoPodInfo bool
}

func (o Options) admission() admission.Options {
	return admission.Options{DefaultOwner: o.DefaultOwner, Pools: o.Pools, NoPodInfo: o.NoPodInfo, Isolation: o.Isolation}
}

// AddToScheme adds the types that the webhooks read and write.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(nadv1.AddToScheme(s), corev1.AddToScheme(s), nodev1.AddToScheme(s), resourceapi.AddToScheme(s))
}

// Register mounts the webhooks on a manager that is not started yet, adds what
// they read to its scheme and cache, and makes the manager ready only when that
// is there.
func Register(mgr manager.Manager, o Options) error {
	switch o.DefaultOwner {
	case "", v1alpha1.OwnerMultus, v1alpha1.OwnerNadra:
	default:
		return fmt.Errorf("registering webhooks: default owner %q is not known: use %s or %s", o.DefaultOwner, v1alpha1.OwnerMultus, v1alpha1.OwnerNadra)
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
	r := newReader(mgr.GetClient(), mgr.GetAPIReader())
	server := mgr.GetWebhookServer()
	server.Register(MutatePodsPath, &ctrladmission.Webhook{Handler: m.measured(MutatePodsPath, &podHandler{
		options: o.admission(), reader: r, templates: newTemplates(mgr.GetClient(), mgr.GetAPIReader()),
		pools: newPoolIndex(mgr.GetAPIReader()), decided: m.decided,
	})})
	server.Register(ValidateClaimsPath, &ctrladmission.Webhook{Handler: m.measured(ValidateClaimsPath, &claimHandler{isolation: o.Isolation})})
	return nil
}

// read are the objects that the cache has. Of namespaces and nodes the labels
// are enough.
func read() []client.Object {
	return []client.Object{
		&nadv1.NetworkAttachmentDefinition{}, &resourceapi.ResourceClaimTemplate{}, &nodev1.RuntimeClass{}, &resourceapi.DeviceClass{},
		metadataOf("Namespace"), metadataOf("Node"),
	}
}

func metadataOf(kind string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return m
}

// watch has the cache start with what is read, and not with the first request.
func watch(c cache.Cache) error {
	for _, o := range read() {
		if _, err := c.GetInformer(context.Background(), o, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watching %T: %w", o, err)
		}
	}
	return nil
}

// synced is the check for readiness.
func synced(c cache.Cache) func(*http.Request) error {
	return func(r *http.Request) error {
		for _, o := range read() {
			informer, err := c.GetInformer(r.Context(), o, cache.BlockUntilSynced(false))
			if err != nil {
				return fmt.Errorf("looking at the cache of %T: %w", o, err)
			}
			if !informer.HasSynced() {
				return fmt.Errorf("the cache of %T is not filled yet", o)
			}
		}
		return nil
	}
}

package controller

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// The names of the controller's objects in the manifests.
const (
	// Name is the name of the webhook configurations, the Deployment and the Lease.
	Name = v1alpha1.Controller
	// Service is the Service of the webhooks.
	Service = installation.WebhookService
	// Secret is the Secret with the webhooks' certificate.
	Secret = "nadra-webhook-tls"
)

// Options configure the controllers.
type Options struct {
	// Pools is set if nadra serves pools of hardware devices.
	Pools bool
	// BesideMultus is set if the label of a node does not say that it is nadra's.
	BesideMultus bool
	// DriverNamespace is the namespace of the driver's DaemonSet.
	DriverNamespace string
	// TemplateGrace is how long an unused template stays.
	TemplateGrace time.Duration
}

// Scheme returns a scheme with all objects that the controllers read or write.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(nadv1.AddToScheme(s))
	return s
}

// Setup adds the controllers to a manager whose cache has CacheOptions. All run only on the leader.
// The replica serves with the certificate of serving, whose expiry is a metric.
func Setup(ctx context.Context, m manager.Manager, o Options, serving *certwatcher.CertWatcher, templates TemplateSource) error {
	if err := addIndexes(ctx, m.GetFieldIndexer(), o.Pools); err != nil {
		return err
	}
	pods, err := newPodCache(ctx, m)
	if err != nil {
		return err
	}
	meters, err := metrics.NewController(ctrlmetrics.Registry)
	if err != nil {
		return err
	}
	serving.RegisterCallback(func(c tls.Certificate) { meters.CertificateExpires(c.Leaf.NotAfter) })
	events, drivers := m.GetEventRecorder(Name), newDrivers(pods, meters, m.GetClient(), o)
	all := []interface{ setUp(manager.Manager) error }{
		&classes{Client: m.GetClient(), pools: o.Pools, events: events},
		&collector{Client: m.GetClient(), pods: pods, podSource: pods.source, grace: o.TemplateGrace, now: time.Now},
		&templateMaker{Client: m.GetClient(), pods: pods, podSource: pods.source, live: m.GetAPIReader(), source: templates, events: events},
		&profiles{Client: m.GetClient(), nodes: pods, live: m.GetAPIReader(), nodeSource: pods.nodeSource, now: time.Now},
		newMigration(m.GetClient(), pods, meters, drivers),
		drivers,
	}
	for _, c := range all {
		if err := c.setUp(m); err != nil {
			return fmt.Errorf("setting up %T: %w", c, err)
		}
	}
	return nil
}

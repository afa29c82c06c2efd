package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/nadra-dev/nadra/internal/controller"
	"github.com/nadra-dev/nadra/internal/webhook"
)

// run serves the webhooks, and runs the controllers while this replica leads.
func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctrl.SetLogger(klog.Background())
	config, err := o.config()
	if err != nil {
		return err
	}
	serving, err := certwatcher.New(filepath.Join(o.certDir, corev1.TLSCertKey), filepath.Join(o.certDir, corev1.TLSPrivateKeyKey))
	if err != nil {
		return fmt.Errorf("reading the webhooks' certificate: %w", err)
	}
	secured := []func(*tls.Config){func(c *tls.Config) { c.GetCertificate = serving.GetCertificate }}
	if o.clientCA != "" {
		verify, err := webhook.ClientAuthority(o.clientCA)
		if err != nil {
			return fmt.Errorf("--webhook-client-ca: %w", err)
		}
		secured = append(secured, verify)
	}
	m, err := manager.New(config, manager.Options{
		Scheme: controller.Scheme(), Cache: controller.CacheOptions(), Logger: klog.Background(),
		LeaderElection: true, LeaderElectionID: controller.Name, LeaderElectionNamespace: o.namespace, LeaderElectionReleaseOnCancel: true,
		Metrics: metricsserver.Options{BindAddress: o.metrics}, HealthProbeBindAddress: o.health,
		WebhookServer: ctrlwebhook.NewServer(ctrlwebhook.Options{Port: o.port, TLSOpts: secured}),
	})
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	if err := m.Add(serving); err != nil {
		return fmt.Errorf("adding the certificate: %w", err)
	}
	decider := webhook.NewDecider(m, o.webhook)
	if err := controller.Setup(ctx, m, o.Options, serving, decider); err != nil {
		return err
	}
	if err := webhook.Register(m, o.webhook, decider); err != nil {
		return err
	}
	if err := checks(m); err != nil {
		return err
	}
	return m.Start(ctx)
}

// checks adds the health checks of this program; webhook.Register adds one for its caches.
func checks(m manager.Manager) error {
	started := m.GetWebhookServer().StartedChecker()
	if err := m.AddReadyzCheck("webhooks", started); err != nil {
		return fmt.Errorf("adding the check of the webhooks: %w", err)
	}
	if err := m.AddHealthzCheck("webhooks", started); err != nil {
		return fmt.Errorf("adding the check for being alive: %w", err)
	}
	return nil
}

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
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
	serving := &controller.Serving{}
	secured := []func(*tls.Config){serving.Use}
	if o.clientCA != "" {
		verify, err := webhook.ClientAuthority(o.clientCA)
		if err != nil {
			return fmt.Errorf("--webhook-client-ca: %w", err)
		}
		secured = append(secured, verify)
	}
	m, err := manager.New(config, manager.Options{
		Scheme: controller.Scheme(), Cache: controller.CacheOptions(o.Options), Logger: klog.Background(),
		LeaderElection: true, LeaderElectionID: controller.Name, LeaderElectionNamespace: o.Namespace, LeaderElectionReleaseOnCancel: true,
		Metrics: metricsserver.Options{BindAddress: o.metrics}, HealthProbeBindAddress: o.health,
		WebhookServer: ctrlwebhook.NewServer(ctrlwebhook.Options{Port: o.port, TLSOpts: secured}),
	})
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	decider := webhook.NewDecider(m, o.webhook)
	if err := controller.Setup(ctx, m, o.Options, serving, decider); err != nil {
		return err
	}
	if err := webhook.Register(m, o.webhook, decider); err != nil {
		return err
	}
	if err := checks(m, serving); err != nil {
		return err
	}
	return m.Start(ctx)
}

// checks adds the health checks of this program; webhook.Register adds one for its caches. A
// replica is ready if it would answer an API server. It is alive if it answers, or was never
// ready, because a restart would not help then.
func checks(m manager.Manager, serving *controller.Serving) error {
	started := m.GetWebhookServer().StartedChecker()
	if err := m.AddReadyzCheck("certificate", serving.Ready); err != nil {
		return fmt.Errorf("adding the check of the certificate: %w", err)
	}
	if err := m.AddReadyzCheck("webhooks", started); err != nil {
		return fmt.Errorf("adding the check of the webhooks: %w", err)
	}
	alive := func(r *http.Request) error {
		if ready := serving.Ready(r) == nil; ready {
			return started(r)
		}
		return nil
	}
	if err := m.AddHealthzCheck("webhooks", alive); err != nil {
		return fmt.Errorf("adding the check for being alive: %w", err)
	}
	return nil
}

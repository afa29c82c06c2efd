package main

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/nadra-dev/nadra/internal/controller"
)

// certificates maintains the webhooks' certificate, and the caBundle by which the API server trusts it. One
// replica suffices: while it is away, the controller serves with the stored certificate.
func certificates(ctx context.Context, args []string) error {
	o, c, config, err := connect("certificates", args)
	if err != nil {
		return err
	}
	m, err := manager.New(config, manager.Options{
		Scheme: controller.Scheme(), Cache: controller.CertificateCacheOptions(o.namespace), Logger: klog.Background(),
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	if err := controller.SetupCertificates(m, c, o.namespace); err != nil {
		return err
	}
	return m.Start(ctx)
}

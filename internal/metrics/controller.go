package metrics

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Controller is the metrics of nadra-controller.
type Controller struct {
	decisions *prometheus.CounterVec
	answers   *prometheus.HistogramVec
	pods      *prometheus.GaugeVec
	expiry    *prometheus.GaugeVec
	without   *prometheus.GaugeVec
}

// NewController registers the metrics. It reuses metrics that an earlier manager of the
// process has registered: controller-runtime has one registry for all.
func NewController(to prometheus.Registerer) (*Controller, error) {
	c := &Controller{
		decisions: counters("nadra_webhook_decisions_total", "Admitted pods by the decision: converted, multus, untouched or refused.", "decision"),
		answers: histograms("nadra_webhook_duration_seconds", "Time that a webhook took to answer, without reading the request from the network.",
			[]float64{.0005, .001, .0025, .005, .01, .02, .05, .1, .25, 1, 5}, "webhook"),
		pods: prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("nadra_migration_pods",
			"Pods that name networks by annotation and have not ended, by who attaches their networks: nadra (they have a claim), multus, or none (they are on a node without their networks).")), []string{"owner"}),
		without: prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("nadra_nodes_without_driver",
			"1 for each node that is nadra's by its label, or has pods that nadra attaches, and has no driver that is ready.")), []string{"missing_on"}),
		// A vector without labels has no series before the expiry is known.
		expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("nadra_webhook_certificate_expiry_timestamp_seconds",
			"Time at which the certificate of this replica's webhooks expires.")), nil),
	}
	var errs [6]error
	c.decisions, errs[0] = registered(to, c.decisions)
	c.answers, errs[1] = registered(to, c.answers)
	c.pods, errs[2] = registered(to, c.pods)
	c.expiry, errs[3] = registered(to, c.expiry)
	c.without, errs[4] = registered(to, c.without)
	_, errs[5] = registered(to, buildInfo())
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return c, nil
}

// registered registers a collector, or returns the one that is registered already.
func registered[C prometheus.Collector](to prometheus.Registerer, c C) (C, error) {
	err := to.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing, nil
		}
	}
	return c, err
}

// Decisions creates the series of all decisions with the value zero.
func (c *Controller) Decisions(all ...string) {
	for _, d := range all {
		c.decisions.WithLabelValues(d)
	}
}

// Decided counts a decision about a pod.
func (c *Controller) Decided(decision string) { c.decisions.WithLabelValues(decision).Inc() }

// Answers returns the histogram of the seconds that a webhook takes.
func (c *Controller) Answers(webhook string) prometheus.Observer {
	return c.answers.WithLabelValues(webhook)
}

// Pods sets the number of pods with an owner.
func (c *Controller) Pods(owner string, n int) { c.pods.WithLabelValues(owner).Set(float64(n)) }

// WithoutDriver sets whether a node lacks a driver.
func (c *Controller) WithoutDriver(node string, missing bool) {
	if missing {
		c.without.WithLabelValues(node).Set(1)
	} else {
		c.without.DeleteLabelValues(node)
	}
}

// CertificateExpires sets the time at which the webhooks' certificate expires.
func (c *Controller) CertificateExpires(when time.Time) {
	c.expiry.WithLabelValues().Set(float64(when.Unix()))
}

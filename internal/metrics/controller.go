package metrics

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Controller has the meters of what there is one of in a cluster.
type Controller struct {
	decisions *prometheus.CounterVec
	answers   *prometheus.HistogramVec
	pods      *prometheus.GaugeVec
	expiry    *prometheus.GaugeVec
}

// Owners of a pod's networks, in the migration. See Controller.Pods.
const (
	OfNadra  = "nadra"
	OfMultus = "multus"
	OfNobody = "none"
)

// NewController registers the meters, or finds those that a manager before this
// one has registered: controller-runtime has one registry for all.
func NewController(to prometheus.Registerer) (*Controller, error) {
	c := &Controller{
		decisions: counters("nadra_webhook_decisions_total", "Pods that were admitted, by what was decided: converted, multus, untouched or refused.", "decision"),
		answers: histograms("nadra_webhook_duration_seconds", "How long a webhook took to answer, without reading the request from the network.",
			[]float64{.0005, .001, .0025, .005, .01, .02, .05, .1, .25, 1, 5}, "webhook"),
		pods: prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("nadra_migration_pods",
			"Pods that name networks by annotation and have not ended, by who attaches them: nadra (they have a claim), multus, none (nobody has, although they are on a node).")), []string{"owner"}),
		// Of no labels, and so there when it is known and not before.
		expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("nadra_webhook_certificate_expiry_timestamp_seconds",
			"When the certificate expires that this replica serves with.")), nil),
	}
	var errs [5]error
	c.decisions, errs[0] = registered(to, c.decisions)
	c.answers, errs[1] = registered(to, c.answers)
	c.pods, errs[2] = registered(to, c.pods)
	c.expiry, errs[3] = registered(to, c.expiry)
	_, errs[4] = registered(to, buildInfo())
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return c, nil
}

// registered registers a collector, or finds the one that is there.
func registered[C prometheus.Collector](to prometheus.Registerer, c C) (C, error) {
	err := to.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if there, ok := already.ExistingCollector.(C); ok {
			return there, nil
		}
	}
	return c, err
}

// Decisions has the outcomes of admission begin at zero.
func (c *Controller) Decisions(all ...string) {
	for _, d := range all {
		c.decisions.WithLabelValues(d)
	}
}

// Decided counts a pod that was admitted, or refused.
func (c *Controller) Decided(decision string) { c.decisions.WithLabelValues(decision).Inc() }

// Answers measures, in seconds, how long a webhook takes.
func (c *Controller) Answers(webhook string) prometheus.Observer {
	return c.answers.WithLabelValues(webhook)
}

// Pods tells how many pods there are of an owner.
func (c *Controller) Pods(owner string, n int) { c.pods.WithLabelValues(owner).Set(float64(n)) }

// CertificateExpires tells when.
func (c *Controller) CertificateExpires(when time.Time) {
	c.expiry.WithLabelValues().Set(float64(when.Unix()))
}

package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nadra-dev/nadra/pkg/admission"
)

// meters are what is counted.
type meters struct {
	decisions *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

func newMeters(to prometheus.Registerer) (*meters, error) {
	m := &meters{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nadra_webhook_decisions_total",
			Help: "Pods that were admitted, by what was decided: converted, multus, untouched or refused.",
		}, []string{"decision"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "nadra_webhook_duration_seconds",
			Help:    "How long a webhook took to answer, without reading the request from the network.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .02, .05, .1, .25, 1, 5},
		}, []string{"webhook"}),
	}
	var err1, err2 error
	m.decisions, err1 = registered(to, m.decisions)
	m.durations, err2 = registered(to, m.durations)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	for _, o := range []admission.Outcome{admission.Converted, admission.OnMultus, admission.Untouched, admission.Refused} {
		m.decisions.WithLabelValues(string(o))
	}
	return m, nil
}

// registered registers a collector, or finds the one that a manager before this
// one has registered.
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

func (m *meters) decided(o admission.Outcome) { m.decisions.WithLabelValues(string(o)).Inc() }

// measured measures a handler. A panic of it refuses what was asked about, and
// nothing else.
func (m *meters) measured(path string, h ctrladmission.Handler) ctrladmission.Handler {
	duration := m.durations.WithLabelValues(strings.TrimPrefix(path, "/"))
	return ctrladmission.HandlerFunc(func(ctx context.Context, req ctrladmission.Request) (response ctrladmission.Response) {
		start := time.Now()
		defer func() {
			if p := recover(); p != nil {
				err := fmt.Errorf("admitting %s: nadra's controller has a bug: %v", req.Kind.Kind, p)
				logf.FromContext(ctx).Error(err, "panic", "stack", string(debug.Stack()))
				if path == MutatePodsPath {
					m.decided(admission.Refused)
				}
				response = ctrladmission.Errored(http.StatusInternalServerError, err)
			}
			duration.Observe(time.Since(start).Seconds())
		}()
		return h.Handle(ctx, req)
	})
}

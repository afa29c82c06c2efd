package webhook

import (
	"context"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/admission"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// meters has the metrics of admission.
type meters struct{ *metrics.Controller }

func newMeters(to prometheus.Registerer) (*meters, error) {
	c, err := metrics.NewController(to)
	if err != nil {
		return nil, err
	}
	c.Decisions(string(admission.Converted), string(admission.OnMultus), string(admission.Untouched), string(admission.Refused))
	return &meters{c}, nil
}

// decided counts an outcome.
func (m *meters) decided(o admission.Outcome) { m.Decided(string(o)) }

// measured measures a handler. It recovers from panics of the handler and refuses the request.
func (m *meters) measured(path string, h ctrladmission.Handler) ctrladmission.Handler {
	duration := m.Answers(strings.TrimPrefix(path, "/"))
	return ctrladmission.HandlerFunc(func(ctx context.Context, req ctrladmission.Request) (response ctrladmission.Response) {
		start := time.Now()
		defer func() {
			if p := recover(); p != nil {
				err := reason.Errorf(reason.ControllerBug, "admitting a %s: recovered from a panic: %v", req.Kind.Kind, p)
				logf.FromContext(ctx).Error(err, "Recovered from a panic", "kind", req.Kind.Kind, "stack", string(debug.Stack()))
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

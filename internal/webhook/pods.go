package webhook

import (
	"context"
	"encoding/json"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nadra-dev/nadra/pkg/admission"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// podHandler admits pods that are about to be created.
type podHandler struct {
	decider *Decider
	decided func(admission.Outcome)
}

// Handle admits one pod. It writes nothing: the pod may yet be refused, and the caller may not be an
// API server.
func (h *podHandler) Handle(ctx context.Context, req ctrladmission.Request) ctrladmission.Response {
	if req.Operation != admissionv1.Create || req.SubResource != "" {
		return ctrladmission.Allowed("")
	}
	d, err := h.decider.decide(ctx, req.Object.Raw, req.Namespace, nil)
	if err != nil {
		h.decided(admission.Refused)
		return ctrladmission.Errored(http.StatusInternalServerError, err)
	}
	h.decided(d.Outcome)
	return responseOf(d)
}

// responseOf returns the response for a decision.
func responseOf(d admission.Decision) ctrladmission.Response {
	if d.Outcome == admission.Refused {
		return ctrladmission.Denied(d.Refusal)
	}
	response := ctrladmission.Allowed("").WithWarnings(d.Warnings...)
	if len(d.Edits) == 0 {
		return response
	}
	patch, err := json.Marshal(d.Edits)
	if err != nil {
		return ctrladmission.Errored(http.StatusInternalServerError, reason.Errorf(reason.ControllerBug, "encoding the patch: %w", err))
	}
	response.Patch = patch
	form := admissionv1.PatchTypeJSONPatch
	response.PatchType = &form
	return response
}

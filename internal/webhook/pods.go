package webhook

import (
	"context"
	"encoding/json"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nadra-dev/nadra/pkg/admission"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// podHandler admits pods that are about to be created.
type podHandler struct {
	options   admission.Options
	reader    *reader
	templates *templates
	pools     *poolIndex
	decided   func(admission.Outcome)
}

// Handle admits one pod.
func (h *podHandler) Handle(ctx context.Context, req ctrladmission.Request) ctrladmission.Response {
	if req.Operation != admissionv1.Create || req.SubResource != "" {
		return ctrladmission.Allowed("")
	}
	d, err := h.admit(ctx, req)
	if err != nil {
		h.decided(admission.Refused)
		return ctrladmission.Errored(http.StatusInternalServerError, err)
	}
	h.decided(d.Outcome)
	return responseOf(d)
}

// admit decides about a pod and creates the templates to which the pod will refer. If a template
// exists already, it decides again with the existing one.
func (h *podHandler) admit(ctx context.Context, req ctrladmission.Request) (admission.Decision, error) {
	l := &lookups{ctx: ctx, reader: h.reader, pools: h.pools, fresh: map[types.NamespacedName]*resourceapi.ResourceClaimTemplate{}}
	for {
		d := admission.Pod(req.Object.Raw, req.Namespace, h.options, l.admission())
		if l.err != nil {
			return d, l.err
		}
		if len(d.Templates) == 0 || req.DryRun != nil && *req.DryRun {
			return d, nil
		}
		found, err := h.create(ctx, d.Templates, l)
		if err != nil {
			return admission.Decision{}, err
		}
		if !found {
			return d, nil
		}
	}
}

// create creates templates. It reports whether some existed already.
func (h *podHandler) create(ctx context.Context, wanted []*resourceapi.ResourceClaimTemplate, l *lookups) (found bool, err error) {
	for _, t := range wanted {
		there, err := h.templates.ensure(ctx, t)
		if err != nil {
			return false, err
		}
		if there != nil {
			l.fresh[client.ObjectKeyFromObject(t)] = there
			found = true
		}
	}
	return found, nil
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

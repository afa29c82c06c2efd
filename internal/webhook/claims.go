package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nadra-dev/nadra/pkg/admission"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// maxErrors is how many errors of a claim a refusal names.
const maxErrors = 16

// claimHandler validates ResourceClaims, ResourceClaimTemplates and DeviceClasses that are about to be
// created or changed.
type claimHandler struct {
	isolation attachment.Isolation
}

// Handle validates one object. It allows updates that do not change the spec, such as the removal of a
// finalizer.
func (h *claimHandler) Handle(_ context.Context, req ctrladmission.Request) ctrladmission.Response {
	if req.SubResource != "" || req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return ctrladmission.Allowed("")
	}
	errs, err := h.validate(req)
	if err != nil {
		return ctrladmission.Errored(http.StatusBadRequest, err)
	}
	if len(errs) == 0 {
		return ctrladmission.Allowed("")
	}
	code := cmp.Or(v1alpha1.Code(errs), reason.ClaimInvalid)
	errs = errs[:min(len(errs), maxErrors)]
	status := apierrors.NewInvalid(schema.GroupKind{Group: req.Kind.Group, Kind: req.Kind.Kind}, req.Name, errs).Status()
	status.Message = code.Text(status.Message)
	return ctrladmission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
}

// validate validates an object by its kind.
func (h *claimHandler) validate(req ctrladmission.Request) (field.ErrorList, error) {
	switch req.Kind.Kind {
	case "ResourceClaim":
		return changed(req, func(c *resourceapi.ResourceClaim) any { return c.Spec }, func(c *resourceapi.ResourceClaim) field.ErrorList {
			return admission.Claim(c.Spec, req.Namespace, h.isolation)
		})
	case "ResourceClaimTemplate":
		return changed(req, func(t *resourceapi.ResourceClaimTemplate) any { return t.Spec }, func(t *resourceapi.ResourceClaimTemplate) field.ErrorList {
			return admission.Template(t.Spec, req.Namespace, h.isolation)
		})
	case "DeviceClass":
		return changed(req, func(c *resourceapi.DeviceClass) any { return c.Spec }, admission.Class)
	}
	return nil, reason.Errorf(reason.ObjectNotRead, "validating a %s: the webhook only knows ResourceClaim, ResourceClaimTemplate and DeviceClass: correct the rules of its configuration", req.Kind.Kind)
}

// changed validates an object that is new or whose spec has changed.
func changed[T any](req ctrladmission.Request, spec func(*T) any, validate func(*T) field.ErrorList) (field.ErrorList, error) {
	now, before := new(T), new(T)
	if err := json.Unmarshal(req.Object.Raw, now); err != nil {
		return nil, reason.Errorf(reason.ObjectNotRead, "reading the %s: %w", req.Kind.Kind, err)
	}
	if req.Operation == admissionv1.Update {
		if err := json.Unmarshal(req.OldObject.Raw, before); err != nil {
			return nil, reason.Errorf(reason.ObjectNotRead, "reading the old %s: %w", req.Kind.Kind, err)
		}
		if reflect.DeepEqual(spec(now), spec(before)) {
			return nil, nil
		}
	}
	return validate(now), nil
}

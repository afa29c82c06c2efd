package webhook

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nadra-dev/nadra/pkg/admission"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// spec returns a claim for network infra/wan, with an invalid config if mistake is set.
func spec(t *testing.T, mistake bool) resourceapi.ResourceClaimSpec {
	t.Helper()
	s, err := attachment.ClaimSpec([]attachment.Selection{{Network: attachment.NetworkRef{Namespace: "infra", Name: "wan"}, Interface: "up"}})
	if err != nil {
		t.Fatal(err)
	}
	if mistake {
		s.Devices.Config[0].Opaque.Parameters.Raw = []byte(`{"apiVersion": "nadra.dev/v1alpha1", "kind": "AttachmentConfig", "plugin": "evil"}`)
	}
	return s
}

func encodedAs(t *testing.T, o any) []byte {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestClaims(t *testing.T) {
	class := translate.DeviceClass(attachment.NetworkRef{Namespace: "shop", Name: "lan"}, "")
	badClass := class.DeepCopy()
	badClass.Name = "wan.infra.nad.nadra.dev"
	meta := metav1.ObjectMeta{Name: "c", Namespace: "shop"}
	for name, c := range map[string]struct {
		kind     string
		object   any
		isolated bool
		code     reason.Code
		want     string
	}{
		"claim":          {kind: "ResourceClaim", object: &resourceapi.ResourceClaim{ObjectMeta: meta, Spec: spec(t, false)}},
		"bad claim":      {kind: "ResourceClaim", object: &resourceapi.ResourceClaim{ObjectMeta: meta, Spec: spec(t, true)}, code: reason.ClaimInvalid, want: `spec.devices.config[0].opaque.parameters: Invalid value: unknown field "plugin"`},
		"template":       {kind: "ResourceClaimTemplate", object: &resourceapi.ResourceClaimTemplate{ObjectMeta: meta, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: spec(t, false)}}},
		"isolated":       {kind: "ResourceClaimTemplate", object: &resourceapi.ResourceClaimTemplate{ObjectMeta: meta, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: spec(t, false)}}, isolated: true, code: reason.ClaimInvalid, want: "spec.spec.devices.requests[0].exactly.deviceClassName: Forbidden: [NamespaceIsolation] "},
		"class":          {kind: "DeviceClass", object: class},
		"bad class":      {kind: "DeviceClass", object: badClass, code: reason.ClaimInvalid, want: "spec.config[0].opaque.parameters.network: Invalid value"},
		"something else": {kind: "Pod", object: class, code: reason.ObjectNotRead, want: "Pod"},
	} {
		h := &claimHandler{isolation: attachment.Isolation{On: c.isolated}}
		got := h.Handle(context.Background(), creating(encodedAs(t, c.object), c.kind))
		if got.Allowed != (c.want == "") || !got.Allowed && (!strings.HasPrefix(got.Result.Message, c.code.Text("")) || !strings.Contains(got.Result.Message, c.want)) {
			t.Errorf("%s: got %+v", name, got.Result)
		}
		if !got.Allowed && c.kind != "Pod" && (got.Result.Code != http.StatusUnprocessableEntity || len(got.Result.Details.Causes) == 0) {
			t.Errorf("%s: got %+v", name, got.Result)
		}
	}
}

// TestUpdates checks that only updates of the spec are validated.
func TestUpdates(t *testing.T) {
	h := &claimHandler{}
	old := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Finalizers: []string{"a"}}, Spec: spec(t, true)}
	now := old.DeepCopy()
	now.Finalizers = nil
	req := creating(encodedAs(t, now), "ResourceClaim")
	req.Operation, req.OldObject = admissionv1.Update, runtime.RawExtension{Raw: encodedAs(t, old)}
	if got := h.Handle(context.Background(), req); !got.Allowed {
		t.Errorf("got %+v", got.Result)
	}
	old.Spec = spec(t, false)
	req.OldObject.Raw = encodedAs(t, old)
	if got := h.Handle(context.Background(), req); got.Allowed {
		t.Error("an update to an invalid spec is allowed")
	}
	req.SubResource = "status"
	if got := h.Handle(context.Background(), req); !got.Allowed {
		t.Errorf("got %+v", got.Result)
	}
	req.Operation, req.SubResource = admissionv1.Delete, ""
	if got := h.Handle(context.Background(), req); !got.Allowed {
		t.Errorf("got %+v", got.Result)
	}
	if got := h.Handle(context.Background(), creating([]byte("{"), "ResourceClaim")); got.Allowed {
		t.Error("an incomplete object is allowed")
	} else if code := reason.In(got.Result.Message); code != reason.ObjectNotRead {
		t.Errorf("got code %q in %s", code, got.Result.Message)
	}
}

// TestPanic checks that a panic refuses the request and is counted.
func TestPanic(t *testing.T) {
	m, registry := metersOf(t)
	h := m.measured(MutatePodsPath, ctrladmission.HandlerFunc(func(context.Context, ctrladmission.Request) ctrladmission.Response { panic("oh") }))
	got := (&ctrladmission.Webhook{Handler: h}).Handle(context.Background(), creating(nil, "Pod"))
	if got.Allowed || got.UID != "1" || got.Result.Code != http.StatusInternalServerError || reason.In(got.Result.Message) != reason.ControllerBug || !strings.Contains(got.Result.Message, "oh") {
		t.Errorf("got %+v", got)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, f := range families {
		for _, metric := range f.Metric {
			value := metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			counted[f.GetName()+" "+metric.Label[0].GetValue()] = value
		}
	}
	for name, want := range map[string]float64{
		"nadra_webhook_decisions_total refused": 1, "nadra_webhook_decisions_total converted": 0, "nadra_webhook_duration_seconds mutate-pods": 1,
	} {
		if value, found := counted[name]; !found || value != want {
			t.Errorf("%s is %v; all are %v", name, value, counted)
		}
	}
	again, err := newMeters(registry)
	if err != nil {
		t.Fatalf("a second manager cannot count: %v", err)
	}
	again.decided(admission.Refused)
	if families, err = registry.Gather(); err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, metric := range f.Metric {
			if f.GetName() == "nadra_webhook_decisions_total" && metric.Label[0].GetValue() == "refused" && metric.GetCounter().GetValue() != 2 {
				t.Errorf("two managers have counted %v", metric)
			}
		}
	}
}

package attachment

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// list returns a JSON list of n equal elements, or an annotation of n equal names.
func list(n int, element string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

// padded returns a text with as many spaces before its end as it needs to have n bytes.
func padded(n int, text string) string {
	return text[:len(text)-1] + strings.Repeat(" ", n-len(text)) + text[len(text)-1:]
}

// nested returns JSON of n nested lists.
func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// keyed returns an element with n keys.
func keyed(n int) string {
	out := `{"name":"a"`
	for i := range n - 1 {
		out += fmt.Sprintf(`,"k%d":1`, i)
	}
	return out + "}"
}

// addresses returns n addresses as a JSON list.
func addresses(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`"10.0.%d.%d"`, i/250, i%250+1))
	}
	return "[" + strings.Join(out, ",") + "]"
}

// annotationLimits has a value for each limit of the annotation, by its size.
var annotationLimits = map[string]struct {
	limit int
	of    func(n int) string
}{
	"networks by name": {v1alpha1.MaxNetworks, func(n int) string { return strings.TrimSuffix(strings.Repeat("a,", n), ",") }},
	"networks":         {v1alpha1.MaxNetworks, func(n int) string { return list(n, `{"name":"a"}`) }},
	"bytes":            {v1alpha1.MaxAnnotation, func(n int) string { return padded(n, `[{"name":"a"}]`) }},
	"request":          {v1alpha1.MaxRequest, func(n int) string { return "[" + padded(n, `{"name":"a"}`) + "]" }},
	"keys":             {v1alpha1.MaxRequestKeys, func(n int) string { return "[" + keyed(n) + "]" }},
	"depth":            {v1alpha1.MaxDepth, func(n int) string { return `[{"name":"a","cni-args":{"k":` + nested(n-3) + `}}]` }},
	"addresses":        {v1alpha1.MaxIPs, func(n int) string { return `[{"name":"a","ips":` + addresses(n) + `}]` }},
	"gateways":         {v1alpha1.MaxDefaultRoutes, func(n int) string { return `[{"name":"a","default-route":` + addresses(n) + `}]` }},
	"port mappings": {v1alpha1.MaxPortMappings, func(n int) string {
		return `[{"name":"a","portMappings":` + list(n, `{"hostPort":1,"containerPort":1}`) + `}]`
	}},
	"device": {v1alpha1.MaxDeviceID, func(n int) string { return `[{"name":"a","deviceID":"` + strings.Repeat("d", n) + `"}]` }},
}

// configLimits has a value for each limit of a network's configuration, by its size.
var configLimits = map[string]struct {
	limit int
	of    func(n int) string
}{
	"bytes":   {v1alpha1.MaxNetworkConfig, func(n int) string { return padded(n, `{"type":"a"}`) }},
	"plugins": {v1alpha1.MaxPlugins, func(n int) string { return `{"plugins":` + list(n, `{"type":"a"}`) + `}` }},
	"name":    {v1alpha1.MaxNetworkName, func(n int) string { return `{"type":"a","name":"` + strings.Repeat("n", n) + `"}` }},
	"plugin":  {v1alpha1.MaxProgramName, func(n int) string { return `{"type":"` + strings.Repeat("p", n) + `"}` }},
	"IPAM":    {v1alpha1.MaxProgramName, func(n int) string { return `{"type":"a","ipam":{"type":"` + strings.Repeat("p", n) + `"}}` }},
	"depth":   {v1alpha1.MaxDepth, func(n int) string { return `{"type":"a","k":` + nested(n-1) + `}` }},
}

// largeAnnotations returns annotations at the limits, beyond them, and far beyond them.
func largeAnnotations() (out []string) {
	for _, l := range annotationLimits {
		out = append(out, l.of(l.limit), l.of(l.limit+1), l.of(100*l.limit))
	}
	return out
}

// largeConfigs returns configurations at the limits, beyond them, and far beyond them.
func largeConfigs() (out []string) {
	for _, l := range configLimits {
		out = append(out, l.of(l.limit), l.of(l.limit+1), l.of(100*l.limit))
	}
	return out
}

// TestAnnotationLimits checks that an annotation at each limit is accepted, and one beyond it refused
// with a short message.
func TestAnnotationLimits(t *testing.T) {
	for name, l := range annotationLimits {
		if _, err := ParseSelections(l.of(l.limit), "default"); err != nil {
			t.Errorf("%s: %d are refused: %v", name, l.limit, err)
		}
		for _, n := range []int{l.limit + 1, 100 * l.limit} {
			_, err := ParseSelections(l.of(n), "default")
			if reason.Of(err) != reason.LimitExceeded || len(err.Error()) > 2*maxMessage {
				t.Errorf("%s: %d give %v", name, n, err)
			}
		}
	}
	for _, n := range []int{v1alpha1.MaxArguments + 1, v1alpha1.MaxArguments} {
		var selections []Selection
		for range 4 {
			selections = append(selections, Selection{Network: ref("default", "a"), CNIArgs: object{"k": mustJSON(strings.Repeat("x", n/4-len(`{"k":""}`)))}})
		}
		selections[0].CNIArgs["k"] = mustJSON(strings.Repeat("x", n-3*(n/4)-len(`{"k":""}`)))
		if _, err := Agree(selections); (reason.Of(err) == reason.LimitExceeded) != (n > v1alpha1.MaxArguments) {
			t.Errorf("%d bytes of arguments give %v", n, err)
		}
	}
}

// TestConfigLimits checks the same for the configuration of a network, and that a cache which keeps the
// beginning only accepts and refuses the same.
func TestConfigLimits(t *testing.T) {
	for name, l := range configLimits {
		for n, want := range map[int]reason.Code{l.limit: "", l.limit + 1: reason.LimitExceeded, 100 * l.limit: reason.LimitExceeded} {
			_, err := ParseNetwork(nad(l.of(n)))
			slim := nad(l.of(n))
			Slim(slim)
			_, slimErr := ParseNetwork(slim)
			if reason.Of(err) != want || reason.Of(slimErr) != want || len(slim.Spec.Config) > v1alpha1.MaxNetworkConfig+1 {
				t.Errorf("%s: %d give %v, and from a cache %v", name, n, err, slimErr)
			}
			if err != nil && len(err.Error()) > 2*maxMessage {
				t.Errorf("%s: a message has %d bytes", name, len(err.Error()))
			}
		}
	}
}

// TestMessagesAreShort checks that errors do not repeat long values.
func TestMessagesAreShort(t *testing.T) {
	long := strings.Repeat("x", v1alpha1.MaxRequest-100)
	for _, annotation := range []string{
		long + "_", `[{"name":"` + long + `"}]`, `["` + long + `"]`, `[{"name":"a/` + long + `"}]`, `[{"name":"a","mac":"` + long + `"}]`,
		`[{"name":"a","interface":"` + long + `"}]`, `[{"name":"a","ips":["` + long + `"]}]`, "[" + strings.Repeat(`{"name":"_"},`, 63) + `{"name":"_"}]`,
	} {
		if _, err := ParseSelections(annotation, "default"); err == nil || len(err.Error()) > 2*maxMessage {
			t.Errorf("%.40s: %d bytes", annotation, len(err.Error()))
		}
	}
	for _, config := range []string{`{"type":"a","name":"` + long + `"}`, `{"type":"` + long + `"}`, `{"type":"a/` + long[:200] + `"}`, `{"type":"a","cniVersion":"` + long + `"}`} {
		if _, err := ParseNetwork(nad(config)); err == nil || len(err.Error()) > 2*maxMessage {
			t.Errorf("%.40s: %d bytes", config, len(err.Error()))
		}
	}
}

// TestCorpusIsWithinTheLimits checks the public manifests, if they are there.
func TestCorpusIsWithinTheLimits(t *testing.T) {
	c := loadCorpus(t)
	if c == nil {
		t.Skip("no " + corpusEnv)
	}
	for _, annotation := range c.annotations {
		if _, err := ParseSelections(annotation, "default"); reason.Of(err) == reason.LimitExceeded {
			t.Error(err)
		}
	}
	for _, n := range c.networks {
		if _, err := ParseNetwork(n); reason.Of(err) == reason.LimitExceeded {
			t.Error(err)
		}
	}
}

// largePlan returns the annotation and the networks of the pod that costs most.
func largePlan(tb testing.TB, networks int) (string, func(NetworkRef) (Network, error)) {
	tb.Helper()
	config := `{"cniVersion":"1.0.0","plugins":[{"type":"a","x":"` + strings.Repeat("x", v1alpha1.MaxNetworkConfig-400) + `"}` + strings.Repeat(`,{"type":"b"}`, v1alpha1.MaxPlugins-1) + `]}`
	n, err := ParseNetwork(nad(config))
	if err != nil {
		tb.Fatal(err)
	}
	args := strings.Repeat("y", v1alpha1.MaxAnnotation/v1alpha1.MaxNetworks-80)
	return list(networks, `{"name":"a","cni-args":{"k":"`+args+`"}}`), func(NetworkRef) (Network, error) { return n, nil }
}

// BenchmarkPlanAtTheLimit parses and plans a pod at all limits, and one a tenth of its size.
func BenchmarkPlanAtTheLimit(b *testing.B) {
	for _, networks := range []int{v1alpha1.MaxNetworks / 10, v1alpha1.MaxNetworks} {
		annotation, lookup := largePlan(b, networks)
		b.Run(fmt.Sprintf("networks=%d", networks), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plan(b, annotation, lookup)
			}
		})
	}
}

func plan(tb testing.TB, annotation string, lookup func(NetworkRef) (Network, error)) Plan {
	tb.Helper()
	selections, err := ParseSelections(annotation, "default")
	if err != nil {
		tb.Fatal(err)
	}
	p, err := NewPlan(selections, lookup)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// TestPlanGrowsLinearly checks that ten times as many networks make some ten times as many allocations,
// and that the plan at all limits has the size that docs/reference/sizing.md states.
func TestPlanGrowsLinearly(t *testing.T) {
	few, lookup := largePlan(t, v1alpha1.MaxNetworks/8)
	many, _ := largePlan(t, v1alpha1.MaxNetworks)
	small := testing.AllocsPerRun(3, func() { plan(t, few, lookup) })
	large := testing.AllocsPerRun(3, func() { plan(t, many, lookup) })
	if large > 10*small {
		t.Errorf("%d networks make %v allocations, %d make %v", v1alpha1.MaxNetworks/8, small, v1alpha1.MaxNetworks, large)
	}
	raw, err := json.Marshal(plan(t, many, lookup))
	if err != nil || len(raw) > 2<<20 {
		t.Errorf("the plan has %d bytes, %v", len(raw), err)
	}
}

func TestSlim(t *testing.T) {
	fat := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "b", Labels: map[string]string{"k": "v"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}", ResourceNameAnnotation: "x/y", NodeSelectorAnnotation: "k=v"},
	}}
	Slim(fat)
	if len(fat.Annotations) != 2 || fat.Labels != nil || fat.ManagedFields != nil || fat.Annotations[ResourceNameAnnotation] != "x/y" || fat.Name != "b" {
		t.Errorf("kept %+v", fat.ObjectMeta)
	}
}

// claimWith returns an allocated claim with as many requests, each of as many alternatives, and one config of a size for
// the named ones, or for all.
func claimWith(requests, alternatives, size int, named ...string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{}}}
	allocated := &claim.Status.Allocation.Devices
	for i := range requests {
		r := resourceapi.DeviceRequest{Name: fmt.Sprint("r", i)}
		result := resourceapi.DeviceRequestAllocationResult{Request: r.Name, Driver: v1alpha1.DriverName}
		if alternatives == 1 {
			r.Exactly = &resourceapi.ExactDeviceRequest{DeviceClassName: "lan.shop.nad.nadra.dev"}
		} else {
			result.Request += "/s1"
		}
		for j := 1; alternatives > 1 && j <= alternatives; j++ {
			r.FirstAvailable = append(r.FirstAvailable, resourceapi.DeviceSubRequest{Name: fmt.Sprint("s", j), DeviceClassName: "lan.shop.nad.nadra.dev"})
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, r)
		allocated.Results = append(allocated.Results, result)
	}
	config := resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: v1alpha1.DriverName, Parameters: runtime.RawExtension{
		Raw: []byte(padded(size, `{"apiVersion":"nadra.dev/v1alpha1","kind":"AttachmentConfig","network":{"namespace":"shop","name":"lan"}}`)),
	}}}
	claim.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{Requests: named, DeviceConfiguration: config}}
	allocated.Config = []resourceapi.DeviceAllocationConfiguration{{Source: resourceapi.AllocationConfigSourceClaim, Requests: named, DeviceConfiguration: config}}
	return claim
}

// TestClaimConfigs checks that configs of a claim are accepted at the limit, and refused beyond it before one is decoded,
// by the driver and before the claim is allocated.
func TestClaimConfigs(t *testing.T) {
	const limit = v1alpha1.MaxClaimConfigs
	for name, c := range map[string]struct {
		requests, alternatives, counted int
		named                           []string
	}{
		"for all requests":     {32, 1, 32, nil},
		"for all alternatives": {4, 8, 32, nil},
		"for a request's":      {32, 8, 16, []string{"r1", "r2"}},
		"for named ones":       {32, 8, 16, []string{"r1", "r2/s1", "r3/s1", "r4/s1", "r5/s1", "r6/s1", "r7/s1", "r8/s1", "r9/s1"}},
	} {
		for _, size := range []int{limit / c.counted, limit/c.counted + 1} {
			claim := claimWith(c.requests, c.alternatives, size, c.named...)
			if size > limit/c.counted {
				claim.Status.Allocation.Devices.Config[0].Opaque.Parameters.Raw[0] = 'x'
			}
			_, driver := FromClaim(claim, AnyNetwork)
			for _, err := range []error{CheckConfigs(claim.Spec), RequestsOfClaim(claim.Spec, "shop", nil).Err, driver} {
				if size <= limit/c.counted && reason.Of(err) == reason.LimitExceeded || size > limit/c.counted && reason.Of(err) != reason.LimitExceeded {
					t.Errorf("%s: %d × %d bytes give %v", name, c.counted, size, err)
				}
			}
		}
	}
	claim := claimWith(32, 1, 2*limit)
	claim.Spec.Devices.Config[0].Opaque.Driver = "gpu.example.com"
	if err := CheckConfigs(claim.Spec); err != nil {
		t.Errorf("another driver's: %v", err)
	}
}

// TestClaimCost checks that FromClaim merges the configs once for all devices of a request.
func TestClaimCost(t *testing.T) {
	claim := claimWith(1, 1, 200)
	allocated := &claim.Status.Allocation.Devices
	allocated.Config[0].Opaque.Parameters.Raw = []byte(`{"apiVersion":"nadra.dev/v1alpha1","kind":"AttachmentConfig","network":{"name":"lan"},"cniArgs":` + keyed(500) + `}`)
	allocations := func(devices int) float64 {
		allocated.Results = slices.Repeat(allocated.Results[:1], devices)
		return testing.AllocsPerRun(3, func() {
			if got, err := FromClaim(claim, AnyNetwork); err != nil || len(got) != devices {
				t.Fatal(len(got), err)
			}
		})
	}
	if one, many := allocations(1), allocations(32); many > 2*one {
		t.Errorf("one device takes %v allocations, and 32 devices of the same request %v", one, many)
	}
}

// TestConvertedAnnotation checks that the claim of a converted annotation is within the limit of a claim's parameters: one
// with as many port mappings and arguments as fit, which take more bytes in a claim.
func TestConvertedAnnotation(t *testing.T) {
	var elements []string
	for range 6 {
		elements = append(elements, `{"name":"a","portMappings":`+list(v1alpha1.MaxPortMappings, `{"hostPort":1,"containerPort":1}`)+`}`)
	}
	for range 3 {
		elements = append(elements, `{"name":"a","cni-args":{"k":"`+strings.Repeat("<", 1600)+`"}}`)
	}
	annotation := "[" + strings.Join(elements, ",") + "]"
	selections, err := ParseSelections(annotation, "shop")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := ClaimSpec(selections)
	if err != nil {
		t.Fatal(err)
	}
	bytes := 0
	for _, c := range spec.Devices.Config {
		bytes += len(c.Opaque.Parameters.Raw)
	}
	t.Logf("an annotation of %d bytes is a claim with %d bytes of parameters", len(annotation), bytes)
	if err := CheckConfigs(spec); err != nil {
		t.Errorf("an annotation of %d bytes: %v", len(annotation), err)
	}
}

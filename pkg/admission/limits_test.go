package admission

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// decisionOn decides about a pod of nadra with as many containers.
func decisionOn(t *testing.T, containers int, l Lookups, change func(*corev1.Pod)) Decision {
	t.Helper()
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	for i := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: "i"})
	}
	change(&pod)
	manifest, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return Pod(manifest, "shop", Options{}, l)
}

// templates returns lookups with templates by name.
func templates(all map[string]*resourceapi.ResourceClaimTemplate) Lookups {
	return Lookups{Template: func(_, name string) *resourceapi.ResourceClaimTemplate { return all[name] }}
}

// TestPodBeyondALimit checks that a pod is admitted at each limit and refused beyond it, and that a pod that asks nothing
// of nadra stays as it is.
func TestPodBeyondALimit(t *testing.T) {
	large := func(bytes int) Lookups {
		spec := resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{{Name: "a", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "fast"}}},
			Config: []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
				Driver: v1alpha1.DriverName, Parameters: runtime.RawExtension{Raw: []byte(`"` + strings.Repeat("x", bytes-2) + `"`)},
			}}}},
		}}
		if errs := Template(resourceapi.ResourceClaimTemplateSpec{Spec: spec}, "shop", attachment.Isolation{}); bytes > v1alpha1.MaxClaimConfigs &&
			(len(errs) != 1 || errs[0].Field != "spec.spec.devices.config" || v1alpha1.Code(errs) != reason.LimitExceeded) {
			t.Errorf("a template of %d bytes: %v", bytes, errs)
		}
		return templates(map[string]*resourceapi.ResourceClaimTemplate{"t": {Spec: resourceapi.ResourceClaimTemplateSpec{Spec: spec}}})
	}
	claims := func(pod *corev1.Pod) {
		name := "t"
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "a", ResourceClaimTemplateName: &name}}
	}
	asking := func(pod *corev1.Pod) {
		pod.Labels = map[string]string{v1alpha1.OwnerLabel: v1alpha1.OwnerNadra}
		pod.Annotations = map[string]string{attachment.NetworksAnnotation: "lan"}
	}
	terms := func(n int) func(pod *corev1.Pod) {
		return func(pod *corev1.Pod) {
			asking(pod)
			pod.Labels = nil
			term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "k", Operator: corev1.NodeSelectorOpExists}}}
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: slices.Repeat([]corev1.NodeSelectorTerm{term}, n)}}}
		}
	}
	// beside gives a pod with a network n claims. With all that are allowed it is refused for another reason, because the
	// network needs one, too: TestPodLimits of translate has that.
	beside := func(n int) Decision {
		gpu := "gpu"
		other := &resourceapi.ResourceClaimTemplate{}
		other.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "a", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: gpu}}}
		return decisionOn(t, 1, templates(map[string]*resourceapi.ResourceClaimTemplate{gpu: other}), func(pod *corev1.Pod) {
			asking(pod)
			for i := range n {
				pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: fmt.Sprintf("gpu-%d", i), ResourceClaimTemplateName: &gpu})
			}
		})
	}
	for name, c := range map[string]struct {
		limit int
		of    func(n int) Decision
		// beyond is the outcome beyond the limit.
		beyond Outcome
	}{
		"claims":                   {v1alpha1.MaxPodClaims, beside, Refused},
		"containers":               {v1alpha1.MaxContainers, func(n int) Decision { return decisionOn(t, n, Lookups{}, asking) }, Refused},
		"containers, no networks":  {v1alpha1.MaxContainers, func(n int) Decision { return decisionOn(t, n, large(9999), claims) }, Untouched},
		"terms of Multus' pod":     {v1alpha1.MaxEdits, func(n int) Decision { return decisionOn(t, 1, Lookups{}, terms(n)) }, Refused},
		"parameters of a template": {v1alpha1.MaxClaimConfigs, func(n int) Decision { return decisionOn(t, 1, large(n), claims) }, Refused},
	} {
		for n, want := range map[int]bool{c.limit: false, c.limit + 1: true} {
			d := c.of(n)
			if exceeded := reason.In(d.Refusal) == reason.LimitExceeded; exceeded != (want && c.beyond == Refused) || want && d.Outcome != c.beyond || len(d.Refusal) > 4<<10 {
				t.Errorf("%s: %d give %s with %d edits, %.300s", name, n, d.Outcome, len(d.Edits), d.Refusal)
			}
		}
	}
}

// TestCopyWithManyReferences checks that the claims of a copy are dropped by one edit for each container, and that its
// other references stay.
func TestCopyWithManyReferences(t *testing.T) {
	name, other := "nadra-web-0123456789", "gpu"
	made := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.Controller}}}
	d := decisionOn(t, 3, templates(map[string]*resourceapi.ResourceClaimTemplate{name: made}), func(pod *corev1.Pod) {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "a", ResourceClaimTemplateName: &name}, {Name: "b", ResourceClaimTemplateName: &other}}
		pod.Spec.Containers[0].Resources.Claims = slices.Repeat([]corev1.ResourceClaim{{Name: "a"}}, 100)
		pod.Spec.Containers[1].Resources.Claims = append(slices.Repeat([]corev1.ResourceClaim{{Name: "a"}}, 100), corev1.ResourceClaim{Name: "b", Request: "r"})
		pod.Spec.Containers[2].Resources.Claims = []corev1.ResourceClaim{{Name: "b"}}
	})
	got, err := json.Marshal(d.Edits)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"op":"remove","path":"/spec/resourceClaims/0"},{"op":"remove","path":"/spec/containers/0/resources/claims"},` +
		`{"op":"replace","path":"/spec/containers/1/resources/claims","value":[{"name":"b","request":"r"}]}]`
	if d.Outcome != Converted || string(got) != want {
		t.Errorf("%s: %s, want %s", d.Outcome, got, want)
	}
}

// TestLookupsOnce checks that admission reads each template of a pod once before it decides what serves the pod.
func TestLookupsOnce(t *testing.T) {
	read := 0
	l := Lookups{Template: func(string, string) *resourceapi.ResourceClaimTemplate { read++; return nil }}
	decisionOn(t, 1, l, func(pod *corev1.Pod) {
		name := "t"
		pod.Annotations = map[string]string{attachment.NetworksAnnotation: "lan"}
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "a", ResourceClaimTemplateName: &name}}
	})
	if read != 1 {
		t.Errorf("read %d times", read)
	}
}

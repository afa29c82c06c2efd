package webhook

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/admission"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// TestDefaultNetworks checks that pods get the default networks of their namespace's label, which the
// webhook reads, or else those of the options, before their own.
func TestDefaultNetworks(t *testing.T) {
	labelled := nadra("shop")
	labelled.Labels[v1alpha1.DefaultNetworksKey] = "lan_infra__wan"
	for name, c := range map[string]struct {
		namespace *corev1.Namespace
		pod, want string
	}{
		"of the options":      {nadra("shop"), "", "infra/wan"},
		"before the pod's":    {nadra("shop"), "lan", "infra/wan,shop/lan"},
		"of the namespace":    {labelled, "", "shop/lan,infra/wan"},
		"both before its own": {labelled, "lan@own", "shop/lan,infra/wan,shop/lan@own"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Options: admission.Options{DefaultNetworks: []attachment.NetworkRef{{Namespace: "infra", Name: "wan"}}}}
			w := newWorld(t, o, true, c.namespace, network("shop", "lan"), network("infra", "wan"))
			pod := patched(t, podWith(c.pod), w.handler.Handle(t.Context(), creating(podWith(c.pod), "Pod")))
			if got := pod.Annotations[attachment.NetworksAnnotation]; got != c.want {
				t.Errorf("the pod names %s, want %s", got, c.want)
			}
			requests := templateOf(t, w, pod).Spec.Spec.Devices.Requests
			if len(requests) != strings.Count(c.want, ",")+1 || requests[0].Name != "net1" {
				t.Errorf("the claim requests %v", requests)
			}
		})
	}
}

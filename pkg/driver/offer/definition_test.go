package offer

import (
	"errors"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// TestDefinitionsAreKept checks that a definition is kept while its NAD does not change.
func TestDefinitionsAreKept(t *testing.T) {
	files := func(string) (string, []byte, error) { return "", nil, errors.New("no file") }
	change := func(do func(*nadv1.NetworkAttachmentDefinition)) func() *nadv1.NetworkAttachmentDefinition {
		return func() *nadv1.NetworkAttachmentDefinition {
			n := drivertest.NAD("blue", drivertest.BlueConf)
			n.UID = "first"
			do(n)
			attachment.Slim(n) // as the driver's cache does
			return n
		}
	}
	for name, tt := range map[string]struct {
		nad  func() *nadv1.NetworkAttachmentDefinition
		kept bool
	}{
		"nothing":            {change(func(*nadv1.NetworkAttachmentDefinition) {}), true},
		"a label":            {change(func(n *nadv1.NetworkAttachmentDefinition) { n.Labels = map[string]string{"a": "b"} }), true},
		"another annotation": {change(func(n *nadv1.NetworkAttachmentDefinition) { n.Annotations = map[string]string{"a": "b"} }), true},
		"the configuration":  {change(func(n *nadv1.NetworkAttachmentDefinition) { n.Spec.Config = drivertest.RedConf }), false},
		"no configuration":   {change(func(n *nadv1.NetworkAttachmentDefinition) { n.Spec.Config = "" }), false},
		"a wrong one":        {change(func(n *nadv1.NetworkAttachmentDefinition) { n.Spec.Config = "{" }), false},
		"a NAD of its name":  {change(func(n *nadv1.NetworkAttachmentDefinition) { n.UID = types.UID("second") }), false},
		"alignment": {change(func(n *nadv1.NetworkAttachmentDefinition) {
			n.Annotations = map[string]string{attachment.AlignAnnotation: "true"}
		}), false},
		"deviceFrom": {change(func(n *nadv1.NetworkAttachmentDefinition) {
			n.Annotations = map[string]string{attachment.DeviceFromAnnotation: "required"}
		}), false},
		"the resource pool": {change(func(n *nadv1.NetworkAttachmentDefinition) {
			n.Annotations = map[string]string{attachment.ResourceNameAnnotation: "a/b"}
		}), false},
	} {
		t.Run(name, func(t *testing.T) {
			var known Definitions
			before := known.Of([]*nadv1.NetworkAttachmentDefinition{change(func(*nadv1.NetworkAttachmentDefinition) {})()}, files)[0]
			now := tt.nad()
			after := known.Of([]*nadv1.NetworkAttachmentDefinition{now}, files)[0]
			drivertest.Same(t, "kept", tt.kept, before == after)
			drivertest.Same(t, "its network", attachment.NetworkRef{Namespace: "default", Name: "blue"}, after.Network.Ref)
			drivertest.Same(t, "its pool", now.Annotations[attachment.ResourceNameAnnotation], after.Network.ResourceName)
			drivertest.Same(t, "its deviceFrom", now.Annotations[attachment.DeviceFromAnnotation], after.Network.DeviceFrom)
			drivertest.Same(t, "its ID", before.ID, after.ID)
			known.Of(nil, files)
			drivertest.Same(t, "definitions of NADs that are gone", 0, len(known.known))
		})
	}
}

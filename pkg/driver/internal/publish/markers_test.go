package publish

import (
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// TestOfferedWithoutMasterAndDevice checks that keys which a plugin does not read, and
// resource names that are only markers, keep no network from being offered.
func TestOfferedWithoutMasterAndDevice(t *testing.T) {
	named := func(n *nadv1.NetworkAttachmentDefinition, resource string) *nadv1.NetworkAttachmentDefinition {
		n.Annotations = map[string]string{attachment.ResourceNameAnnotation: resource}
		return n
	}
	for name, tt := range map[string]struct {
		nad     *nadv1.NetworkAttachmentDefinition
		offered bool
	}{
		"a bridge with a master":   {drivertest.NAD("blue", `{"type":"bridge","master":"nowhere"}`), true},
		"a macvlan without its":    {drivertest.NAD("blue", `{"type":"macvlan","master":"nowhere"}`), false},
		"a bridge of its marker":   {named(drivertest.NAD("blue", `{"type":"bridge"}`), "bridge.network.kubevirt.io/br0"), true},
		"Open vSwitch's":           {named(drivertest.NAD("blue", `{"type":"ovs"}`), "ovs-cni.network.kubevirt.io/br1"), true},
		"what draws from a pool":   {named(drivertest.NAD("blue", `{"type":"bridge"}`), "example.com/vf"), false},
		"a name like the marker's": {named(drivertest.NAD("blue", `{"type":"bridge"}`), "bridge.network.kubevirt.io.example.com/br0"), false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if err := b.nads.Add(tt.nad); err != nil {
				t.Fatal(err)
			}
			published, err := b.refresh(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			drivertest.Same(t, "is offered", tt.offered, len(published.Networks) == 1)
			if tt.offered {
				n, err := b.View.Usable(attachment.NetworkRef{Namespace: "default", Name: "blue"})
				drivertest.Same(t, "Prepare's error", nil, err)
				drivertest.Same(t, "Prepare's pool", "", n.ResourceName)
				drivertest.Same(t, "its device", "node-0-0", published.Slices()[0][0].Name)
			}
		})
	}
}

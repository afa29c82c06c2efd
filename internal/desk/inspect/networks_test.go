package inspect

import (
	"bytes"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// TestPrintNetworks checks which nodes offer networks that are listed, draw from a pool, are offered by no
// node, or cannot be read.
func TestPrintNetworks(t *testing.T) {
	nad := func(name, config, pool string) *nadv1.NetworkAttachmentDefinition {
		n := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: config}}
		if pool != "" {
			n.Annotations = map[string]string{attachment.ResourceNameAnnotation: pool}
		}
		return n
	}
	device := func(name string, networks ...string) resourceapi.Device {
		d := resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
		for _, n := range networks {
			attachment.NetworkIDOf(attachment.NetworkRef{Namespace: "default", Name: n}).AddTo(d.Attributes)
		}
		return d
	}
	vf := device("vf")
	vf.Attributes[attachment.AttributeResourceName] = resourceapi.DeviceAttribute{StringValue: ptr.To("intel.com/vf")}
	slice := func(node string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
		return &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
			Driver: "net.nadra.dev", NodeName: &node, Pool: resourceapi.ResourcePool{Name: node}, Devices: devices,
		}}
	}
	in := Input{
		Networks: []*nadv1.NetworkAttachmentDefinition{
			nad("red", `{"cniVersion":"1.0.0","plugins":[{"type":"bridge","ipam":{"type":"host-local"}},{"type":"tuning"}]}`, ""),
			nad("blue", `{"cniVersion":"1.0.0","type":"bridge"}`, ""), nad("broken", `{"type":`, ""), nad("vf", `{"cniVersion":"1.0.0","type":"sriov"}`, "intel.com/vf"),
		},
		Slices:  []*resourceapi.ResourceSlice{slice("n2", device("node-0-0", "red")), slice("n1", device("node-0-0", "blue", "red"), device("node-0-1", "red"), vf)},
		Classes: []*resourceapi.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "red.default.nad.nadra.dev"}}},
	}
	var got bytes.Buffer
	if err := PrintNetworks(&got, OfferedNetworks(in), true, true, false); err != nil {
		t.Fatal(err)
	}
	want := `
NAMESPACE NAME PLUGINS IPAM POOL NODES ID CLASS OFFERED BY MESSAGE
default blue bridge - - 1 cU%;)* blue.default.nad.nadra.dev n1 the DeviceClass does not exist
default broken - - - 0 sB_f]f broken.default.nad.nadra.dev - [NetworkInvalid] parsing network default/broken: spec.config: line 1, column 9: unexpected end of JSON input: is a closing bracket or quote missing?
default red bridge,tuning host-local - 2 oW|8k# red.default.nad.nadra.dev n1,n2 -
default vf sriov - intel.com/vf 1 aH,~g+ vf.default.nad.nadra.dev n1 the DeviceClass does not exist
`
	if diff := cmp.Diff(want, "\n"+regexp.MustCompile(" +").ReplaceAllString(got.String(), " ")); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

package inspect

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
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
	shared := slice("", device("node-0-0", "blue"))
	shared.Labels, shared.Spec.NodeName = map[string]string{v1alpha1.ProfileLabel: "0123456789abcdef"}, nil
	event := func(name, node string, minute int, why, message string) *corev1.Event {
		return &corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "NetworkAttachmentDefinition", Namespace: "default", Name: name}, Source: corev1.EventSource{Host: node},
			Reason: why, Message: message, LastTimestamp: metav1.Date(2026, 1, 1, 10, minute, 0, 0, time.UTC),
		}
	}
	in := Input{
		Networks: []*nadv1.NetworkAttachmentDefinition{
			nad("red", `{"cniVersion":"1.0.0","plugins":[{"type":"bridge","ipam":{"type":"host-local"}},{"type":"tuning"}]}`, ""),
			nad("gone", `{"cniVersion":"1.0.0","type":"bridge"}`, ""), nad("never", `{"cniVersion":"1.0.0","type":"bridge"}`, ""), nad("back", `{"cniVersion":"1.0.0","type":"bridge"}`, ""),
			nad("blue", `{"cniVersion":"1.0.0","type":"bridge"}`, ""), nad("broken", `{"type":`, ""), nad("vf", `{"cniVersion":"1.0.0","type":"sriov"}`, "intel.com/vf"),
		},
		Slices:   []*resourceapi.ResourceSlice{slice("n2", device("node-0-0", "red", "gone", "back")), slice("n1", device("node-0-0", "blue", "red"), device("node-0-1", "red"), vf), shared},
		Profiles: map[string][]string{"0123456789abcdef": {"n3", "n4"}},
		Classes:  []*resourceapi.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "red.default.nad.nadra.dev"}}},
		Events: []*corev1.Event{
			event("gone", "n1", 1, reason.EventNetworkUnavailable, "[MasterMissing] lan0 is gone"), event("gone", "n2", 1, reason.EventNetworkUnavailable, "[MasterMissing] was gone"),
			event("gone", "n2", 2, reason.EventNetworkAvailable, "is back"), event("back", "n2", 1, reason.EventNetworkUnavailable, "was gone"), event("back", "n2", 3, reason.EventNetworkAvailable, "is back"),
			event("red", "n1", 1, reason.EventNetworkUnavailable, "the event of its return is lost"), event("never", "n1", 1, reason.EventNetworkUnavailable, "of a deleted network"),
		},
	}
	in.Events[len(in.Events)-1].InvolvedObject.UID = "of-before"
	for i := range 8 {
		in.Events = append(in.Events, event("vf", fmt.Sprintf("m%d", i), i, reason.EventNetworkUnavailable, fmt.Sprintf("m%d lacks it", i)))
	}
	var got bytes.Buffer
	if err := (&Table{Namespaces: true, Wide: true}).PrintNetworks(&got, OfferedNetworks(in)); err != nil {
		t.Fatal(err)
	}
	want := `
NAMESPACE NAME PLUGINS IPAM POOL NODES ID CLASS OFFERED BY MESSAGE
default back bridge - - 1 fT0p)7 back.default.nad.nadra.dev n2 the DeviceClass does not exist
default blue bridge - - 3 cU%;)* blue.default.nad.nadra.dev n1,n3,n4 the DeviceClass does not exist
default broken - - - 0 sB_f]f broken.default.nad.nadra.dev - [NetworkInvalid] parsing network default/broken: spec.config: line 1, column 9: unexpected end of JSON input: is a closing bracket or quote missing?
default gone bridge - - 1 lX@i84 gone.default.nad.nadra.dev n2 [MasterMissing] lan0 is gone
default never bridge - - 0 fI_+-_ never.default.nad.nadra.dev - no node offers it: kubectl nadra doctor --probe names what each node lacks
default red bridge,tuning host-local - 2 oW|8k# red.default.nad.nadra.dev n1,n2 -
default vf sriov - intel.com/vf 1 aH,~g+ vf.default.nad.nadra.dev n1 m0 lacks it, m1 lacks it, m2 lacks it, m3 lacks it, m4 lacks it, m5 lacks it, 2 more
`
	in.Slices, in.Events = nil, nil
	if got := OfferedNetworks(in)[0].Problem; !strings.Contains(got, ownLabel) {
		t.Errorf("while no node offers any network: %q", got)
	}
	if diff := cmp.Diff(want, "\n"+regexp.MustCompile(" +").ReplaceAllString(got.String(), " ")); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

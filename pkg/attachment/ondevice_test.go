package attachment

import (
	"encoding/json"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// TestOnDevice checks what plugins get of a device of another driver, and which devices suit no plugin.
func TestOnDevice(t *testing.T) {
	function := OtherDriverDevice{Driver: "nic.example.com", Pool: "node-1", Device: "vf-3", ID: "0000:3b:02.3", Interface: "eth3"}
	link := OtherDriverDevice{Driver: "nic.example.com", Pool: "node-1", Device: "eth7", Interface: "eth7"}
	moved := link
	moved.Moved = true
	dranet := OtherDriverDevice{Driver: "dra.net", Pool: "node-1", Device: "eth7", Interface: "eth7"}
	nameless := OtherDriverDevice{Driver: "nic.example.com", Pool: "node-1", Device: "gpu-0"}
	evil := link
	evil.Interface = "../eth7"
	for name, tt := range map[string]struct {
		plugins string
		device  OtherDriverDevice
		want    string // of the first plugin
		alone   bool
		inPod   string
		refused string
	}{
		"a function, for sriov":                     {`{"type":"sriov"},{"type":"tuning"}`, function, `"deviceID":"0000:3b:02.3","pciBusID":"0000:3b:02.3","type":"sriov"`, true, "", ""},
		"a function, for host-device":               {`{"type":"host-device"}`, function, `"deviceID":"0000:3b:02.3","pciBusID":"0000:3b:02.3","type":"host-device"`, true, "", ""},
		"an interface, for host-device":             {`{"type":"host-device"}`, link, `"device":"eth7","type":"host-device"`, true, "", ""},
		"a function's interface, for macvlan":       {`{"type":"macvlan"}`, function, `"master":"eth3","type":"macvlan"`, false, "", ""},
		"the NAD's own master, the same":            {`{"type":"vlan","master":"eth7"}`, link, `"master":"eth7","type":"vlan"`, false, "", ""},
		"another master":                            {`{"type":"vlan","master":"eth1"}`, link, "", false, "", "master eth1 … device eth7 of driver nic.example.com … interface eth7"},
		"in the pod":                                {`{"type":"ipvlan","linkInContainer":true}`, moved, `"master":"eth7","type":"ipvlan"`, false, "eth7", ""},
		"in the pod, by another name":               {`{"type":"macvlan","linkInContainer":true,"master":"fast"}`, dranet, `"master":"fast","type":"macvlan"`, false, "fast", ""},
		"in the pod, a function without interface":  {`{"type":"macvlan","linkInContainer":true}`, nameless, "", false, "", "device gpu-0 … driver nic.example.com"},
		"moved by its driver":                       {`{"type":"host-device"}`, moved, "", false, "", "driver nic.example.com moves device eth7 … host-device of network a/b"},
		"a key that host-device ignores":            {`{"type":"host-device","linkInContainer":true}`, moved, "", false, "", "driver nic.example.com moves device eth7"},
		"of DRANET, which always moves":             {`{"type":"macvlan"}`, dranet, "", false, "", "driver dra.net moves device eth7"},
		"no usable attribute":                       {`{"type":"sriov"}`, nameless, "", false, "", "sriov … gpu-0 … nic.example.com … k8s.cni.cncf.io/deviceID"},
		"an interface, for a plugin that needs IDs": {`{"type":"sriov"}`, link, "", false, "", "k8s.cni.cncf.io/deviceID"},
		"a name that leads elsewhere":               {`{"type":"host-device"}`, evil, "", false, "", "attributes.interface"},
	} {
		t.Run(name, func(t *testing.T) {
			a := Attachment{Network: NetworkRef{Namespace: "a", Name: "b"}, Conflist: json.RawMessage(`{"name":"b","plugins":[` + tt.plugins + `]}`)}
			got, alone, err := a.OnDevice(tt.device)
			if tt.refused != "" {
				checkRefused(t, err, reason.DeviceMismatch, tt.refused)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var list struct{ Plugins []object }
			if err := json.Unmarshal(got.Conflist, &list); err != nil {
				t.Fatal(err)
			}
			delete(list.Plugins[0], "linkInContainer")
			if first := strings.Trim(string(mustJSON(list.Plugins[0])), "{}"); first != tt.want || alone != tt.alone || got.NeedsInPod() != tt.inPod {
				t.Errorf("got %s, alone: %t, in the pod: %q; want %s, %t, %q", first, alone, got.NeedsInPod(), tt.want, tt.alone, tt.inPod)
			}
			again, err := got.Renewed(Network{Ref: a.Network, Conflist: a.Conflist})
			if err != nil || !SameJSON(again.Conflist, got.Conflist) {
				t.Errorf("after a change of the NAD: %s, %v; want %s", again.Conflist, err, got.Conflist)
			}
		})
	}
}

// TestPublished checks by which attributes drivers say what a device is.
func TestPublished(t *testing.T) {
	for name, tt := range map[string]struct {
		attributes      map[string]string
		id, iface, pool string
	}{
		"for CNI":                 {map[string]string{"k8s.cni.cncf.io/deviceID": "mlx5.sf.4", "k8s.cni.cncf.io/resourceName": "x/sf", "resource.kubernetes.io/pciBusID": "0000:3b:00.0"}, "mlx5.sf.4", "", "x/sf"},
		"DRANET's":                {map[string]string{"dra.net/ifName": "eth7", "resource.kubernetes.io/pciBusID": "0000:3b:00.0", "dra.net/alias": "a"}, "0000:3b:00.0", "eth7", ""},
		"in the driver's own way": {map[string]string{"interfaceName": "eth8"}, "", "eth8", ""},
		"nothing":                 {map[string]string{"dra.net/mac": "02:00:00:00:00:01"}, "", "", ""},
	} {
		attributes := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
		for key, value := range tt.attributes {
			attributes[resourceapi.QualifiedName(key)] = resourceapi.DeviceAttribute{StringValue: &value}
		}
		if d := (OtherDriverDevice{}).Published(attributes); d.ID != tt.id || d.Interface != tt.iface || d.ResourceName != tt.pool {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestFromClaimDeviceFrom checks which request's device a network may name.
func TestFromClaimDeviceFrom(t *testing.T) {
	for name, tt := range map[string]struct {
		from    string
		change  func(*resourceapi.ResourceClaim)
		device  string
		refused string
	}{
		"a request":               {"nic", nil, "eth7", ""},
		"one of alternatives":     {"best", nil, "eth9", ""},
		"the alternative itself":  {"best/second", nil, "eth9", ""},
		"one that was not chosen": {"best/first", nil, "", "best/first"},
		"none of the claim":       {"disk", nil, "", `no request "disk" … nic, best, best/first, best/second, net`},
		"the network's own":       {"net", nil, "", "device of nadra's own … another driver"},
		"several devices": {"nic", func(c *resourceapi.ResourceClaim) {
			c.Status.Allocation.Devices.Results[1].Request = "nic"
		}, "", "2 devices … count to 1"},
		"one of an administrator": {"nic", func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true) }, "", "adminAccess"},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c"}}
			claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{
				{Name: "nic"}, {Name: "best", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "first"}, {Name: "second"}}}, {Name: "net"},
			}
			config := v1alpha1.AttachmentConfig{TypeMeta: v1alpha1.TypeMeta(), Network: &v1alpha1.NetworkReference{Name: "b"}, DeviceFrom: tt.from}
			claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
				Results: []resourceapi.DeviceRequestAllocationResult{
					{Request: "nic", Driver: "nic.example.com", Pool: "node-1", Device: "eth7"},
					{Request: "best/second", Driver: "nic.example.com", Pool: "node-1", Device: "eth9"},
					{Request: "net", Driver: v1alpha1.DriverName, Pool: "node-1", Device: "networks"},
				},
				Config: []resourceapi.DeviceAllocationConfiguration{{Source: resourceapi.AllocationConfigSourceClaim, Requests: []string{"net"}, DeviceConfiguration: resourceapi.DeviceConfiguration{
					Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: v1alpha1.DriverName, Parameters: runtime.RawExtension{Raw: mustJSON(config)}},
				}}},
			}}
			if tt.change != nil {
				tt.change(claim)
			}
			got, err := FromClaim(claim, AnyNetwork)
			if tt.refused != "" {
				checkRefused(t, err, reason.ClaimInvalid, tt.refused)
				return
			}
			if err != nil || len(got) != 1 || got[0].Other == nil || *got[0].Other != (OtherDriverDevice{Claim: "c", Driver: "nic.example.com", Pool: "node-1", Device: tt.device}) {
				t.Errorf("got %+v, %v; want device %s", got, err, tt.device)
			}
		})
	}
}

package attachment

import (
	"encoding/json"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// TestOnDevice checks what plugins get of a device of another driver, and which devices suit no plugin.
func TestOnDevice(t *testing.T) {
	function := OtherDriverDevice{Driver: "nic.example.com", Pool: "node-1", Device: "vf-3", ID: "0000:3b:02.3", Interface: "eth3"}
	link := OtherDriverDevice{Driver: "nic.example.com", Pool: "node-1", Device: "eth7", Interface: "eth7"}
	moved := link
	moved.InPod = "fast"
	share := function
	share.ShareID = "share-1"
	eth0 := dranet()
	eth0.Interface = "eth0"
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
		"another master":                            {`{"type":"vlan","master":"eth1"}`, link, "", false, "", "device eth7 of driver nic.example.com … master eth1 … interface eth7"},
		"in the pod":                                {`{"type":"ipvlan","linkInContainer":true}`, moved, `"master":"fast","type":"ipvlan"`, false, "fast", ""},
		"in the pod, not reported yet":              {`{"type":"ipvlan","linkInContainer":true}`, link, `"master":"eth7","type":"ipvlan"`, false, "eth7", ""},
		"in the pod, by another name than reported": {`{"type":"macvlan","linkInContainer":true,"master":"eth7"}`, moved, "", false, "", "master eth7 … interface fast"},
		"the pod's own interface":                   {`{"type":"macvlan","linkInContainer":true,"master":"lo"}`, link, "", false, "", "master lo … another interface of the pod"},
		"the host's eth0, which gets another name":  {`{"type":"macvlan","linkInContainer":true}`, eth0, "", false, "", "master eth0 … another interface of the pod"},
		"another network's interface":               {`{"type":"macvlan","linkInContainer":true,"master":"net2"}`, link, "", false, "", "master net2 … another interface of the pod"},
		"a share, for macvlan":                      {`{"type":"macvlan"}`, share, `"master":"eth3","type":"macvlan"`, false, "", ""},
		"macvlan's passthru":                        {`{"type":"macvlan","mode":"passthru"}`, link, `"master":"eth7","mode":"passthru","type":"macvlan"`, true, "", ""},
		"a share, for passthru":                     {`{"type":"macvlan","mode":"passthru"}`, share, "", false, "", "share of it (share-1) … macvlan takes the device whole"},
		"a share, for sriov":                        {`{"type":"sriov"}`, share, "", false, "", "share of it (share-1) … sriov takes the device whole"},
		"host-device's own interface, the same":     {`{"type":"host-device","device":"eth7"}`, link, `"device":"eth7","type":"host-device"`, true, "", ""},
		"host-device's own interface":               {`{"type":"host-device","device":"eth1"}`, function, "", false, "", `device "eth1" … interface "eth3"`},
		"host-device's own address":                 {`{"type":"host-device","hwaddr":"02:00:00:00:00:01"}`, function, "", false, "", `hwaddr "02:00:00:00:00:01"`},
		"host-device's own path":                    {`{"type":"host-device","kernelpath":"/sys/devices/x"}`, link, "", false, "", `kernelpath "/sys/devices/x"`},
		"a plugin that reads no device":             {`{"type":"bridge"}`, function, "", false, "", "plugin bridge reads no device"},
		"an odd key of a later plugin":              {`{"type":"macvlan"},{"type":"x","master":7,"device":{}}`, link, `"master":"eth7","type":"macvlan"`, false, "", ""},
		"an odd key of the first plugin":            {`{"type":"macvlan","linkInContainer":"yes"}`, link, "", false, "", "LinkInContainer: must be true or false"},
		"in the pod, by another name":               {`{"type":"macvlan","linkInContainer":true,"master":"fast"}`, dranet(), `"master":"fast","type":"macvlan"`, false, "fast", ""},
		"in the pod, a function without interface":  {`{"type":"macvlan","linkInContainer":true}`, nameless, "", false, "", "device gpu-0 … driver nic.example.com"},
		"moved by its driver":                       {`{"type":"host-device"}`, moved, "", false, "", "network a/b … device eth7 of driver nic.example.com … moves the device … host-device"},
		"a key that host-device ignores":            {`{"type":"host-device","linkInContainer":true}`, moved, "", false, "", "driver nic.example.com … moves the device"},
		"of DRANET, which always moves":             {`{"type":"macvlan"}`, dranet(), "", false, "", "driver dra.net … moves the device"},
		"no usable attribute":                       {`{"type":"sriov"}`, nameless, "", false, "", "gpu-0 … nic.example.com … sriov … k8s.cni.cncf.io/deviceID"},
		"an interface, for a plugin that needs IDs": {`{"type":"sriov"}`, link, "", false, "", "k8s.cni.cncf.io/deviceID"},
		"a name that leads elsewhere":               {`{"type":"host-device"}`, evil, "", false, "", "attributes.interface"},
	} {
		t.Run(name, func(t *testing.T) {
			a := Attachment{Network: NetworkRef{Namespace: "a", Name: "b"}, Conflist: json.RawMessage(`{"name":"b","plugins":[` + tt.plugins + `]}`)}
			got, err := a.OnDevice(tt.device, "net1", "net2")
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
			if first := strings.Trim(string(mustJSON(list.Plugins[0])), "{}"); first != tt.want || got.On.Alone != tt.alone || got.NeedsInPod() != tt.inPod {
				t.Errorf("got %s, alone: %t, in the pod: %q; want %s, %t, %q", first, got.On.Alone, got.NeedsInPod(), tt.want, tt.alone, tt.inPod)
			}
			again, err := got.Renewed(Network{Ref: a.Network, Conflist: a.Conflist})
			if err != nil || !SameJSON(again.Conflist, got.Conflist) {
				t.Errorf("after a change of the NAD: %s, %v; want %s", again.Conflist, err, got.Conflist)
			}
		})
	}
}

// dranet returns a device of DRANET, which always moves its devices.
func dranet() OtherDriverDevice {
	return OtherDriverDevice{Driver: "dra.net", Pool: "node-1", Device: "eth7", Interface: "eth7"}
}

// TestRenewedKeepsHowTheDeviceIsUsed checks that a NAD that changes before its pod is attached neither takes a device
// for itself that it shared when the claim was prepared, nor looks on the host for one that was moved.
func TestRenewedKeepsHowTheDeviceIsUsed(t *testing.T) {
	config := func(plugin string) json.RawMessage {
		return json.RawMessage(`{"name":"b","plugins":[` + plugin + `]}`)
	}
	link := OtherDriverDevice{Driver: "nic.example.com", Device: "eth7", Interface: "eth7"}
	for name, tt := range map[string]struct{ before, now, inPod, refused string }{
		"now alone":       {`{"type":"macvlan"}`, `{"type":"host-device"}`, "", "device eth7 … plugin of another kind"},
		"now shared":      {`{"type":"host-device"}`, `{"type":"macvlan"}`, "", "device eth7 … plugin of another kind"},
		"now on the host": {`{"type":"macvlan","linkInContainer":true}`, `{"type":"macvlan"}`, "fast", "moves the device into the pod"},
	} {
		link.InPod = tt.inPod
		a, err := Attachment{Network: ref("a", "b"), Conflist: config(tt.before)}.OnDevice(link)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var recorded Attachment
		if err := json.Unmarshal(mustJSON(a), &recorded); err != nil {
			t.Fatal(err)
		}
		_, err = recorded.Renewed(Network{Ref: a.Network, Conflist: config(tt.now)})
		checkRefused(t, err, reason.DeviceMismatch, tt.refused)
	}
}

// TestDeviceFromIsRequired checks that a network whose NAD requires deviceFrom is attached in no other way.
func TestDeviceFromIsRequired(t *testing.T) {
	for value, want := range map[string]string{"required": `"required"`, "requierd": `"requierd"`, "": `"required"`} { // misspelled and empty values count, too
		requiresDeviceFrom(t, value, "nadra.dev/device-from: "+want+" … deviceFrom")
	}
}

// requiresDeviceFrom checks the refusals of a network with this value of the annotation.
func requiresDeviceFrom(t *testing.T, value, want string) {
	t.Helper()
	bound := nad(`{"cniVersion":"1.0.0","type":"macvlan"}`)
	bound.Annotations = map[string]string{DeviceFromAnnotation: value}
	Slim(bound)
	n, err := ParseNetwork(bound)
	if err != nil {
		t.Fatal(err)
	}
	_, err = NewAttachment(n, Selection{Network: n.Ref}, "net1")
	checkRefused(t, err, reason.DeviceMismatch, n.Ref.String()+" … "+want)
	a, err := NewAttachment(n, Selection{Network: n.Ref, DeviceFrom: "nic"}, "net1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Renewed(n)
	checkRefused(t, err, reason.DeviceMismatch, want)
	if a, err = a.OnDevice(OtherDriverDevice{Interface: "eth7"}); err == nil {
		_, err = a.Renewed(n)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestPublished checks by which attributes drivers say what a device is.
func TestPublished(t *testing.T) {
	for name, tt := range map[string]struct {
		attributes      map[string]string
		id, iface, pool string
		refused         string
	}{
		"for CNI":  {map[string]string{"k8s.cni.cncf.io/deviceID": "mlx5.sf.4", "k8s.cni.cncf.io/resourceName": "x/sf", "resource.kubernetes.io/pciBusID": "0000:3b:00.0"}, "mlx5.sf.4", "", "x/sf", ""},
		"DRANET's": {map[string]string{"dra.net/ifName": "eth7", "resource.kubernetes.io/pciBusID": "0000:3b:00.0", "dra.net/alias": "a"}, "0000:3b:00.0", "eth7", "", ""},
		"dra-driver-sriov's": {map[string]string{
			"k8s.cni.cncf.io/deviceID": "0000:3b:02.1", "k8s.cni.cncf.io/resourceName": "openshift.io/vf", "resource.kubernetes.io/pciBusID": "0000:3b:02.1",
			"sriovnetwork.k8snetworkplumbingwg.io/pciAddress": "0000:3b:02.1", "sriovnetwork.k8snetworkplumbingwg.io/deviceID": "154c",
			"sriovnetwork.k8snetworkplumbingwg.io/resourceName": "vf", "sriovnetwork.k8snetworkplumbingwg.io/PFName": "eth1",
		}, "0000:3b:02.1", "", "openshift.io/vf", ""},
		"without a domain":       {map[string]string{"interfaceName": "eth8", "a.example.com/ifName": "eth9"}, "", "eth8", "", ""},
		"the driver's own":       {map[string]string{"a.example.com/ifName": "eth9", "nic.example.com/ifName": "eth8"}, "", "eth8", "", ""},
		"the same twice":         {map[string]string{"a.example.com/ifName": "eth8", "b.example.com/interfaceName": "eth8"}, "", "eth8", "", ""},
		"different ones":         {map[string]string{"a.example.com/ifName": "eth8", "b.example.com/ifName": "eth9"}, "", "", "", "driver nic.example.com … nic-0 … eth8, eth9"},
		"its own different ones": {map[string]string{"interfaceName": "eth8", "nic.example.com/ifName": "eth9"}, "", "", "", "eth8, eth9"},
		"different ones, an ID":  {map[string]string{"a.example.com/ifName": "eth8", "b.example.com/ifName": "eth9", "resource.kubernetes.io/pciBusID": "0000:3b:00.0"}, "0000:3b:00.0", "", "", ""},
		"a long altname":         {map[string]string{"a.example.com/ifName": "eth8", "a.example.com/interfaceName": "enp59s0f0np0-of-the-card"}, "", "eth8", "", ""},
		"nothing":                {map[string]string{"dra.net/mac": "02:00:00:00:00:01"}, "", "", "", ""},
	} {
		attributes := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
		for key, value := range tt.attributes {
			attributes[resourceapi.QualifiedName(key)] = resourceapi.DeviceAttribute{StringValue: &value}
		}
		d, err := OtherDriverDevice{Driver: "nic.example.com", Device: "nic-0"}.Published(attributes)
		if tt.refused != "" {
			checkRefused(t, err, reason.DeviceMismatch, tt.refused)
		} else if err != nil || d.ID != tt.id || d.Interface != tt.iface || d.ResourceName != tt.pool {
			t.Errorf("%s: %+v, %v", name, d, err)
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
		"a config for the device":           {"nic", func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Config[0].Requests = []string{"nic"} }, "", "deviceFrom nic … requests nic … network's request"},
		"a config for another alternative":  {"nic", func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Config[0].Requests = []string{"best"} }, "", ""},
		"a config for its own alternatives": {"best", func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Config[0].Requests = []string{"best"} }, "", "deviceFrom best … requests best"},
		"a config for its own alternative": {"best", func(c *resourceapi.ResourceClaim) {
			c.Status.Allocation.Devices.Config[0].Requests = []string{"best/second"}
		}, "", "requests best/second"},
		"one of an administrator": {"nic", func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true) }, "", "adminAccess"},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c"}}
			claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{
				{Name: "nic"},
				{Name: "best", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "first"}, {Name: "second"}}},
				{Name: "net", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "b.a.nad.nadra.dev"}},
			}
			config := v1alpha1.AttachmentConfig{TypeMeta: v1alpha1.TypeMeta(), Network: &v1alpha1.NetworkReference{Name: "b"}, DeviceFrom: tt.from}
			claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
				Results: []resourceapi.DeviceRequestAllocationResult{
					{Request: "nic", Driver: "nic.example.com", Pool: "node-1", Device: "eth7", ShareID: ptr.To(types.UID("share-1"))},
					{Request: "best/second", Driver: "nic.example.com", Pool: "node-1", Device: "eth9", ShareID: ptr.To(types.UID("share-1"))},
					{Request: "net", Driver: v1alpha1.DriverName, Pool: "node-1", Device: "networks"},
				},
				Config: []resourceapi.DeviceAllocationConfiguration{{Source: resourceapi.AllocationConfigSourceClaim, Requests: []string{"net"}, DeviceConfiguration: resourceapi.DeviceConfiguration{
					Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: v1alpha1.DriverName, Parameters: runtime.RawExtension{Raw: mustJSON(config)}},
				}}},
			}}
			for _, device := range []string{"eth7", "eth9"} {
				for share, name := range map[string]string{"share-1": "fast", "share-2": "of-another"} {
					claim.Status.Devices = append(claim.Status.Devices, resourceapi.AllocatedDeviceStatus{
						Driver: "nic.example.com", Pool: "node-1", Device: device, ShareID: &share, NetworkData: &resourceapi.NetworkDeviceData{InterfaceName: name},
					})
				}
			}
			if tt.change != nil {
				tt.change(claim)
			}
			got, err := FromClaim(claim, AnyNetwork)
			if tt.refused != "" {
				checkRefused(t, err, reason.ClaimInvalid, tt.refused)
				return
			}
			if tt.device == "" && err == nil && len(got) == 1 && got[0].Other == nil {
				return
			}
			if err != nil || len(got) != 1 || got[0].Other == nil || *got[0].Other != (OtherDriverDevice{Claim: "c", Driver: "nic.example.com", Pool: "node-1", Device: tt.device, ShareID: "share-1", InPod: "fast"}) {
				t.Errorf("got %+v, %v; want device %s", got, err, tt.device)
			}
		})
	}
}

package attachment

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

func throughJSON(t *testing.T, c v1alpha1.AttachmentConfig) v1alpha1.AttachmentConfig {
	t.Helper()
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := v1alpha1.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return *decoded
}

// claim has requests net1, net2 (with subrequests vf and pf) and other, which
// another driver serves.
func claim(configs ...resourceapi.DeviceAllocationConfiguration) *resourceapi.ResourceClaim {
	share := types.UID("share-1")
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nets"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
			{Name: "net1"},
			{Name: "net2", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "vf"}, {Name: "pf"}}},
			{Name: "other"},
		}}},
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: "net2/vf", Driver: v1alpha1.DriverName, Pool: "node1", Device: "storage/red"},
				{Request: "other", Driver: "gpu.example.com", Pool: "node1", Device: "gpu"},
				{Request: "net1", Driver: v1alpha1.DriverName, Pool: "node1", Device: "default/blue", ShareID: &share},
			},
			Config: configs,
		}}},
	}
}

func config(source resourceapi.AllocationConfigSource, fields string, requests ...string) resourceapi.DeviceAllocationConfiguration {
	return resourceapi.DeviceAllocationConfiguration{
		Source: source, Requests: requests,
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver:     v1alpha1.DriverName,
			Parameters: runtime.RawExtension{Raw: []byte(`{"apiVersion":"nadra.dev/v1alpha1","kind":"AttachmentConfig"` + fields + `}`)},
		}},
	}
}

// ofClasses adds the configs of the classes of net1 and net2, which name their networks.
func ofClasses(configs ...resourceapi.DeviceAllocationConfiguration) []resourceapi.DeviceAllocationConfiguration {
	return append([]resourceapi.DeviceAllocationConfiguration{
		config(fromClass, `, "network": {"namespace": "storage", "name": "red"}`, "net2/vf"),
		config(fromClass, `, "network": {"namespace": "default", "name": "blue"}`, "net1"),
	}, configs...)
}

// suits allows the networks in the test's device names, and no network for the device "any".
func suits(r Requested, _ bool) error {
	if network := r.Selection.Network; network.String() != r.Device && (r.Device != "any" || network != NetworkRef{}) {
		return reason.Errorf(reason.ClaimInvalid, "device %s is not for network %q", r.Device, network)
	}
	return nil
}

const fromClass, ofClaim = resourceapi.AllocationConfigSourceClass, resourceapi.AllocationConfigSourceClaim

func TestFromClaim(t *testing.T) {
	foreign := config(ofClaim, `, "unknown": 1`)
	foreign.Opaque.Driver = "gpu.example.com"
	red := Selection{Network: ref("storage", "red")}
	blue := Selection{Network: ref("default", "blue")}
	with := func(s Selection, edit func(*Selection)) Selection { edit(&s); return s }
	for _, tc := range []struct {
		name      string
		configs   []resourceapi.DeviceAllocationConfiguration
		red, blue Selection
	}{
		{"the classes' networks", nil, red, blue},
		{"another driver's config", []resourceapi.DeviceAllocationConfiguration{foreign}, red, blue},
		{
			"no requests means all",
			[]resourceapi.DeviceAllocationConfiguration{config(ofClaim, `, "deviceID": "d"`)},
			with(red, func(s *Selection) { s.DeviceID = "d" }), with(blue, func(s *Selection) { s.DeviceID = "d" }),
		},
		{
			"for one request",
			[]resourceapi.DeviceAllocationConfiguration{config(ofClaim, `, "interface": "x"`, "net1")},
			red, with(blue, func(s *Selection) { s.Interface = "x" }),
		},
		{
			"a request covers its subrequests",
			[]resourceapi.DeviceAllocationConfiguration{config(ofClaim, `, "interface": "x"`, "net2")},
			with(red, func(s *Selection) { s.Interface = "x" }), blue,
		},
		{
			"for a subrequest",
			[]resourceapi.DeviceAllocationConfiguration{config(ofClaim, `, "interface": "x"`, "net2/vf"), config(ofClaim, `, "interface": "y"`, "net2/pf")},
			with(red, func(s *Selection) { s.Interface = "x" }), blue,
		},
		{"for a request of another driver", []resourceapi.DeviceAllocationConfiguration{config(ofClaim, `, "interface": "x"`, "other")}, red, blue},
		{"class first, then claim, each in order", []resourceapi.DeviceAllocationConfiguration{
			config(ofClaim, `, "interface": "claim1", "deviceID": "claim1"`),
			config(fromClass, `, "interface": "class", "deviceID": "class", "mac": "02:00:00:00:00:01", "cniArgs": {"a": 1, "b": 1}`, "net1"),
			config(ofClaim, `, "interface": "claim2", "cniArgs": {"b": 2}`, "net1"),
		}, with(red, func(s *Selection) { s.Interface, s.DeviceID = "claim1", "claim1" }), with(blue, func(s *Selection) {
			s.Interface, s.DeviceID, s.MAC = "claim2", "claim1", "02:00:00:00:00:01"
			s.CNIArgs = map[string]json.RawMessage{"a": json.RawMessage("1"), "b": json.RawMessage("2")}
		})},
		{"network named, with and without namespace", []resourceapi.DeviceAllocationConfiguration{
			config(ofClaim, `, "network": {"namespace": "storage", "name": "red"}`, "net2/vf"),
			config(ofClaim, `, "network": {"name": "blue"}`, "net1"),
		}, red, blue},
		{
			"defaults",
			[]resourceapi.DeviceAllocationConfiguration{config(ofClaim, `, "portMappings": [{"hostPort": 1, "containerPort": 2}], "defaultRoute": []`, "net1")},
			red, with(blue, func(s *Selection) {
				s.PortMappings = []PortMapping{{HostPort: 1, ContainerPort: 2, Protocol: "tcp"}}
				s.DefaultRoute = &[]string{}
			}),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := FromClaim(claim(ofClasses(tc.configs...)...), suits)
			if err != nil {
				t.Fatal(err)
			}
			want := []Requested{
				{Request: "net2/vf", Pool: "node1", Device: "storage/red", Selection: tc.red},
				{Request: "net1", Pool: "node1", Device: "default/blue", ShareID: "share-1", Selection: tc.blue},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestFromClaimWithoutNetworksOfClasses checks claims whose classes name no network.
func TestFromClaimWithoutNetworksOfClasses(t *testing.T) {
	named := claim(
		config(fromClass, `, "deviceID": "d"`, "net1"),
		config(ofClaim, `, "network": {"namespace": "storage", "name": "red"}`, "net2"),
		config(ofClaim, `, "network": {"name": "blue"}`, "net1"),
	)
	unnamed := claim(config(ofClaim, ``))
	for i := range unnamed.Status.Allocation.Devices.Results {
		unnamed.Status.Allocation.Devices.Results[i].Device = "any"
	}
	for name, tc := range map[string]struct {
		claim *resourceapi.ResourceClaim
		want  []Selection
	}{
		"the claim's networks": {named, []Selection{{Network: ref("storage", "red")}, {Network: ref("default", "blue"), DeviceID: "d"}}},
		"devices only":         {unnamed, []Selection{{}, {}}},
	} {
		t.Run(name, func(t *testing.T) {
			requested, err := FromClaim(tc.claim, suits)
			if err != nil {
				t.Fatal(err)
			}
			var got []Selection
			for _, r := range requested {
				got = append(got, r.Selection)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestFromClaimRefuses also checks claims that try to get another network than their class's.
func TestFromClaimRefuses(t *testing.T) {
	const at = "status.allocation.devices.config[3].opaque.parameters"
	notAllocated := claim()
	notAllocated.Status.Allocation = nil
	second := func(c resourceapi.DeviceAllocationConfiguration) *resourceapi.ResourceClaim {
		return claim(ofClasses(config(ofClaim, ``), c)...)
	}
	alike := claim(ofClasses(config(ofClaim, `, "network": {"name": "blue"}`))...)
	alike.Status.Allocation.Devices.Results[0].Device = "default/blue" // one device is for both networks
	admin := claim(ofClasses(config(ofClaim, ``))...)
	admin.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
	for _, tc := range []struct {
		name  string
		claim *resourceapi.ResourceClaim
		code  reason.Code
		want  string
	}{
		{"access to a device of another pod", admin, reason.ClaimInvalid, "request net2/vf … adminAccess"},
		{"not allocated", notAllocated, reason.ClaimNotAllocated, `status.allocation`},
		{"unknown field", second(config(ofClaim, `, "vlan": 7`)), reason.ClaimInvalid, at + `: … "vlan"`},
		{"unknown field for another driver's request", second(config(ofClaim, `, "vlan": 7`, "other")), reason.ClaimInvalid, at + `: … "vlan"`},
		{"invalid field", second(config(ofClaim, `, "mac": "x"`)), reason.ClaimInvalid, at + `.mac: Invalid value: "x": … 6 bytes`},
		{
			"request that does not exist", second(config(ofClaim, ``, "net1", "net7")), reason.ClaimInvalid,
			`status.allocation.devices.config[3].requests[1]: … "net7" … net1, net2, net2/vf, net2/pf, other`,
		},
		{
			"another network than the class's", second(config(ofClaim, `, "network": {"name": "red"}`, "net2")), reason.ClaimInvalid,
			`request net2/vf: … network default/red, … network storage/red: … DeviceClass red.default.nad.nadra.dev`,
		},
		{
			"another network by a config of the alternative", second(config(ofClaim, `, "network": {"name": "blue"}`, "net2/vf")), reason.ClaimInvalid,
			`request net2/vf: … network default/blue, … network storage/red`,
		},
		{"another network by a config of all requests", alike, reason.ClaimInvalid, `request net2/vf: … network default/blue, … network storage/red`},
		{
			"another network first, then the class's",
			second(config(ofClaim, `, "network": {"namespace": "storage", "name": "blue"}`)), reason.ClaimInvalid, `request net2/vf: … network storage/blue, …`,
		},
		{"no network, for a device of networks", claim(config(ofClaim, ``)), reason.ClaimInvalid, `request net2/vf: … device storage/red`},
		{"a network that the device is not for", claim(config(ofClaim, `, "network": {"name": "blue"}`)), reason.ClaimInvalid, `request net2/vf: … device storage/red … "default/blue"`},
		{"arguments without a network", claim(config(ofClaim, `, "mac": "02:00:00:00:00:01"`)), reason.ClaimInvalid, `request net2/vf: … network`},
		{
			"configs that contradict each other", claim(config(fromClass, `, "network": {"name": "blue"}, "ips": ["10.0.0.1"]`), config(ofClaim, `, "ipamClaimReference": "c"`)), reason.ClaimInvalid,
			`request net2/vf: config.ipamClaimReference: Forbidden: … ips`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := FromClaim(tc.claim, suits)
			checkRefused(t, err, tc.code, "claim default/nets: … "+tc.want)
		})
	}
}

// TestClaimSpec checks that only a selection with more than its network has a config.
func TestClaimSpec(t *testing.T) {
	selections, err := ParseSelections("blue,storage/red@A_b.1", "default")
	if err != nil {
		t.Fatal(err)
	}
	got, err := ClaimSpec(selections)
	if err != nil {
		t.Fatal(err)
	}
	opaque := func(fields string) resourceapi.DeviceConfiguration {
		return resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: "net.nadra.dev", Parameters: runtime.RawExtension{
			Raw: []byte(`{"apiVersion":"nadra.dev/v1alpha1",` + fields + `}`),
		}}}
	}
	want := resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{
			{Name: "net1", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "blue.default.nad.nadra.dev"}},
			{Name: "a-b-1", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "red.storage.nad.nadra.dev"}},
		},
		Config: []resourceapi.DeviceClaimConfiguration{
			{Requests: []string{"a-b-1"}, DeviceConfiguration: opaque(`"interface":"A_b.1","kind":"AttachmentConfig","network":{"name":"red","namespace":"storage"}`)},
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestClaimSpecGivesUniqueRequestNames(t *testing.T) {
	selections, err := ParseSelections("a@x_1,a@x.1,a@X-1,a@x-1-2,a@__,a@é", "default")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := ClaimSpec(selections)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range spec.Devices.Requests {
		got = append(got, r.Name)
	}
	if diff := cmp.Diff([]string{"x-1", "x-1-2", "x-1-3", "x-1-2-2", "net", "net-2"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestClaimSpecRefuses(t *testing.T) {
	big := Selection{Network: ref("default", "a"), CNIArgs: map[string]json.RawMessage{"k": mustJSON(strings.Repeat("x", 10240))}}
	for _, tc := range []struct {
		name       string
		selections []Selection
		code       reason.Code
		want       string
	}{
		{"too many", slices.Repeat([]Selection{{Network: ref("default", "a")}}, 33), "", `33 networks … 32`},
		{"too big", []Selection{big}, reason.LimitExceeded, `networks[0] (default/a): … 10240 bytes … cni-args`},
		{"no namespace", []Selection{{Network: ref("", "a")}}, "", `networks[0] (/a): … namespace`},
		{"invalid", []Selection{{Network: ref("default", "a"), MAC: "x"}}, "", `networks[0] (default/a): mac: Invalid value: "x": … 6 bytes`},
		{
			"same interface",
			[]Selection{{Network: ref("default", "a"), Interface: "net2"}, {Network: ref("default", "b")}},
			reason.InterfaceConflict, `networks[0] (default/a) … networks[1] (default/b) … "net2"`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ClaimSpec(tc.selections)
			checkRefused(t, err, tc.code, tc.want)
		})
	}
}

func TestClaimRoundTrip(t *testing.T) {
	selections, err := ParseSelections(testdata(t, "annotations/elements.json"), "default")
	if err != nil {
		t.Fatal(err)
	}
	checkClaimRoundTrip(t, selections)
}

// checkClaimRoundTrip checks that FromClaim returns the selections of an allocated ClaimSpec.
func checkClaimRoundTrip(t *testing.T, selections []Selection) {
	t.Helper()
	spec, err := ClaimSpec(selections)
	if err != nil {
		t.Fatal(err)
	}
	requested, err := FromClaim(allocate(spec, selections), suits)
	if err != nil {
		t.Fatal(err)
	}
	var got, want []Selection
	for i, r := range requested {
		got, want = append(got, r.Selection), append(want, selections[i])
		want[i].Unknown = nil
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) != len(selections) {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// allocate allocates a claim as the scheduler does: a device of the requested class for each
// request, the class's config first.
func allocate(spec resourceapi.ResourceClaimSpec, selections []Selection) *resourceapi.ResourceClaim {
	var devices resourceapi.DeviceAllocationResult
	for i, r := range spec.Devices.Requests {
		network := selections[i].Network
		devices.Results = append(devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: r.Name, Driver: v1alpha1.DriverName, Pool: "node1", Device: network.String(),
		})
		devices.Config = append(devices.Config, config(fromClass, fmt.Sprintf(`,"network":{"namespace":%q,"name":%q}`, network.Namespace, network.Name), r.Name))
	}
	for _, c := range spec.Devices.Config {
		devices.Config = append(devices.Config, resourceapi.DeviceAllocationConfiguration{
			Source: ofClaim, Requests: c.Requests, DeviceConfiguration: c.DeviceConfiguration,
		})
	}
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nets"}, Spec: spec,
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{Devices: devices}},
	}
}

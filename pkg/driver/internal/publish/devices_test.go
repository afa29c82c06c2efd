package publish

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

// defined returns the definitions of NADs with these configurations.
func defined(t *testing.T, configs map[string]string) []*definition {
	t.Helper()
	var out []*definition
	for name, config := range configs {
		d := (&definitions{}).of([]*nadv1.NetworkAttachmentDefinition{drivertest.NAD(name, config)}, nil)[0]
		if d.err != nil {
			t.Fatal(d.err)
		}
		out = append(out, d)
	}
	return out
}

func devicesFor(networks []*definition, links map[string]Link, o deviceOptions) []resourceapi.Device {
	return devicesOf((&offers{}).of(networks, links, o))
}

func TestSharedDevice(t *testing.T) {
	bus := "0000:3b:00.0"
	links := map[string]Link{"lan0": {pci: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"resource.kubernetes.io/pciBusID": {StringValue: &bus}}}}
	devices := devicesFor(defined(t, map[string]string{"blue": drivertest.BlueConf, "red": drivertest.RedConf}), links, deviceOptions{attachments: 100, copies: 4})
	var got []string
	for _, d := range devices {
		if len(d.Attributes)+len(d.Capacity) > 32 || !*d.AllowMultipleAllocations {
			t.Errorf("device %+v", d)
		}
		for name, c := range d.Capacity {
			if c.RequestPolicy.Default.Value() != 1 {
				t.Errorf("%s: without a default of 1, the first claim takes all", name)
			}
		}
		text := *d.Attributes[attrName].StringValue
		for _, a := range []resourceapi.QualifiedName{attrPlugin, attrIPAM, attrMaster, attrMode, attrSubnet, "resource.kubernetes.io/pciBusID"} {
			if v, ok := d.Attributes[a]; ok {
				text += " " + *v.StringValue
			}
		}
		for _, c := range []resourceapi.QualifiedName{capAttachments, capAddresses} {
			if v, ok := d.Capacity[c]; ok {
				text += fmt.Sprintf(" %s=%s", c, v.Value.String())
			}
		}
		got = append(got, text)
	}
	want := []string{
		"blue macvlan host-local lan0 bridge 10.1.0.0/24 0000:3b:00.0 attachments=100 addresses=253",
		"red bridge attachments=100",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
}

func TestCopiesWhereDevicesAreExclusive(t *testing.T) {
	long := strings.Repeat("a-very-long-name-", 12) + "x"
	cs := defined(t, map[string]string{"red": drivertest.RedConf, long: drivertest.RedConf})
	const copies = 12
	devices := devicesFor(cs, nil, deviceOptions{attachments: 100, copies: copies, exclusive: true})
	var known View
	networks := map[attachment.NetworkRef]viewed{}
	for _, d := range cs {
		networks[d.network.Ref] = viewed{definition: d}
	}
	known.set(networks)
	seen := map[string]bool{}
	for _, d := range devices {
		if errs := validation.IsDNS1123Label(d.Name); len(errs) > 0 || seen[d.Name] {
			t.Errorf("device name %q: %v, seen %v", d.Name, errs, seen[d.Name])
		}
		seen[d.Name] = true
		if d.AllowMultipleAllocations != nil || d.Capacity != nil || d.Attributes[attrInstance].IntValue == nil {
			t.Errorf("device %+v", d)
		}
		ref, err := known.OfDevice("p", d.Name)
		if want := *d.Attributes[attrHash].StringValue; err != nil || refHash(ref) != want {
			t.Errorf("device %s is known as %v: %v", d.Name, ref, err)
		}
	}
	if len(devices) != 2*copies {
		t.Errorf("%d devices, want %d", len(devices), 2*copies)
	}
}

func TestPoolOf(t *testing.T) {
	for devices, want := range map[int][]int{0: {0}, 1: {1}, 128: {128}, 129: {128, 1}, 300: {128, 128, 44}} {
		var got []int
		for _, s := range poolOf(make([]resourceapi.Device, devices)).Slices {
			got = append(got, len(s.Devices))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d devices (-want +got):\n%s", devices, diff)
		}
	}
}

// TestAddressCount checks that ranges count as host-local assigns addresses.
func TestAddressCount(t *testing.T) {
	tests := []struct {
		ipam string
		want int64
	}{
		{`{"type":"host-local","subnet":"10.0.0.0/24"}`, 253}, // .1 is the gateway, .255 the broadcast
		{`{"type":"host-local","subnet":"10.0.0.0/24","gateway":"10.0.0.254"}`, 253},
		{`{"type":"host-local","subnet":"10.0.0.0/24","rangeStart":"10.0.0.10","rangeEnd":"10.0.0.19"}`, 10},
		{`{"type":"host-local","subnet":"10.0.0.0/24","rangeStart":"10.0.0.10","rangeEnd":"10.0.0.19","gateway":"10.0.0.15"}`, 9},
		{`{"type":"host-local","ranges":[[{"subnet":"10.0.0.0/30"},{"subnet":"10.0.1.0/30"}],[{"subnet":"fd00::/64"}]]}`, 2},
		{`{"type":"host-local","ranges":[[{"subnet":"fd00::/64"}]]}`, maxAddresses},
		{`{"type":"host-local","subnet":"10.0.0.0/24","rangeStart":"10.0.0.20","rangeEnd":"10.0.0.10"}`, 0},
		{`{"type":"static"}`, -1},
		{`{"type":"host-local"}`, -1},
		{`{"type":"host-local","subnet":"nonsense"}`, -1},
	}
	for _, tt := range tests {
		n, err := attachment.ParseNetwork(drivertest.NAD("n", `{"cniVersion":"1.0.0","type":"bridge","ipam":`+tt.ipam+`}`))
		if err != nil {
			t.Fatal(err)
		}
		got, ok := addressCount(n)
		if !ok {
			got = -1
		}
		if got != tt.want {
			t.Errorf("%s: %d addresses, want %d", tt.ipam, got, tt.want)
		}
	}
}

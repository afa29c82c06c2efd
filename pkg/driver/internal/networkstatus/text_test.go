package networkstatus

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

// TestNetworkStatusForm compares the annotation byte by byte with what Multus v4.3.0 writes.
func TestNetworkStatusForm(t *testing.T) {
	first := &nadv1.NetworkStatus{Name: "cbr0", Interface: "eth0", IPs: []string{"10.244.0.5"}, Mac: "02:00:00:00:00:0a", Default: true, Gateway: []string{"10.244.0.1"}}
	got, err := Text(first, []checkpoint.Record{drivertest.Attached("net1", drivertest.BridgeResult)})
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{
    "name": "cbr0",
    "interface": "eth0",
    "ips": [
        "10.244.0.5"
    ],
    "mac": "02:00:00:00:00:0a",
    "default": true,
    "dns": {},
    "gateway": [
        "10.244.0.1"
    ]
},{
    "name": "default/blue",
    "interface": "net1",
    "ips": [
        "10.1.0.5",
        "fd00::5"
    ],
    "mac": "02:00:00:00:00:03",
    "dns": {},
    "gateway": [
        "10.1.0.1"
    ]
}]`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("annotation (-want +got):\n%s", diff)
	}
}

// TestNetworkStatusGateways checks that the gateways are those by which packets leave. Multus shows
// those of the plugins' results (behaviour A3-40).
func TestNetworkStatusGateways(t *testing.T) {
	noGateway := strings.Replace(drivertest.BridgeResult, `{"dst":"0.0.0.0/0","gw":"10.1.0.1"}`, `{"dst":"0.0.0.0/0"},{"dst":"::/0","gw":"fd00::1"}`, 1)
	plain := func(result string) checkpoint.Record { return drivertest.Attached("net1", result) }
	asks := func(gateways ...string) checkpoint.Record {
		r := plain(noGateway)
		r.Attachment.DefaultRoute = &gateways
		return r
	}
	other := plain(noGateway)
	other.Attachment.Interface = "net2"
	for name, tc := range map[string]struct {
		records []checkpoint.Record
		want    [][]string
	}{
		"as the result has it":      {[]checkpoint.Record{plain(drivertest.BridgeResult)}, [][]string{{"10.1.0.1"}}},
		"a route without a gateway": {[]checkpoint.Record{plain(noGateway)}, [][]string{{"fd00::1"}}},
		"moved":                     {[]checkpoint.Record{asks("10.1.0.9"), other}, [][]string{{"10.1.0.9"}, nil}},
		"stripped":                  {[]checkpoint.Record{asks(), other}, [][]string{nil, nil}},
	} {
		text, err := Text(nil, tc.records)
		if err != nil {
			t.Fatal(err)
		}
		var entries []nadv1.NetworkStatus
		if err := json.Unmarshal([]byte(text), &entries); err != nil {
			t.Fatal(err)
		}
		var got [][]string
		for _, e := range entries {
			got = append(got, e.Gateway)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestNetworkStatusDeviceInfo checks that only valid device information is in the annotation.
func TestNetworkStatusDeviceInfo(t *testing.T) {
	for info, want := range map[string]string{
		`{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:03:02.1"},"more":1}`: "0000:03:02.1",
		`["pci"]`: "", ``: "",
	} {
		r := drivertest.Attached("net1", drivertest.BridgeResult)
		r.DeviceInfo = json.RawMessage(info)
		text, err := Text(nil, []checkpoint.Record{r})
		if err != nil {
			t.Fatal(err)
		}
		var entries []nadv1.NetworkStatus
		if err := json.Unmarshal([]byte(text), &entries); err != nil {
			t.Fatal(err)
		}
		got := ""
		if d := entries[0].DeviceInfo; d != nil {
			got = d.Pci.PciAddress
		}
		if got != want {
			t.Errorf("%s: status has device %q, want %q\n%s", info, got, want, text)
		}
	}
}

// TestShowsNetworks changes an annotation: only the entries of the records count, because
// others may add entries and the default network's addresses may change.
func TestShowsNetworks(t *testing.T) {
	records := []checkpoint.Record{drivertest.Attached("net1", drivertest.BridgeResult)}
	first, err := drivertest.CBR0(t.Context(), attachment.Sandbox{})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := Text(first, records)
	if err != nil {
		t.Fatal(err)
	}
	first.IPs = []string{"10.0.0.9"}
	other, err := Text(first, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, text string
		want       bool
	}{
		{"as it was written", whole, true},
		{"another default network", strings.Replace(whole, "cbr0", "cbr1", 1), true},
		{"without the network", other, false},
		{"another interface", strings.Replace(whole, `"net1"`, `"net2"`, 1), false},
		{"nothing", "", false},
		{"no JSON", "[", false},
	} {
		if got := Shows(tt.text, records); got != tt.want {
			t.Errorf("%s: shown %t", tt.name, got)
		}
	}
}

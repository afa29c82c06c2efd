package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// A bridge's result: the bridge, the host's end and the pod's end of a veth.
const bridgeResult = `{"cniVersion":"1.1.0","interfaces":[
	{"name":"br0","mac":"02:00:00:00:00:01"},
	{"name":"veth1","mac":"02:00:00:00:00:02"},
	{"name":"net1","mac":"02:00:00:00:00:03","sandbox":"/run/netns/1"}],
	"ips":[{"interface":2,"address":"10.1.0.5/24","gateway":"10.1.0.1"},{"interface":2,"address":"fd00:0::5/64"},{"interface":0,"address":"10.1.0.1/24"}],
	"routes":[{"dst":"0.0.0.0/0","gw":"10.1.0.1"}]}`

func attachedRecord(ifName, result string) checkpoint.Record {
	return checkpoint.Record{
		Prepared: attachment.Prepared{
			Pool: "p", Device: "d", ShareID: "6b0f3d62-6c1c-4f5b-9a59-0f8b8f2f6a10",
			Attachment: attachment.Attachment{Network: attachment.NetworkRef{Namespace: "default", Name: "blue"}, Interface: ifName},
		},
		Phase: checkpoint.Attached, Result: json.RawMessage(result),
	}
}

// asDevice reads back what server-side apply would store.
func asDevice(t *testing.T, s deviceState) resourceapi.AllocatedDeviceStatus {
	t.Helper()
	raw, err := json.Marshal(s.apply("net.nadra.dev", time.Unix(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	var out resourceapi.AllocatedDeviceStatus
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDeviceStatus(t *testing.T) {
	got := asDevice(t, attachedState(attachedRecord("net1", bridgeResult)))
	want := &resourceapi.NetworkDeviceData{InterfaceName: "net1", IPs: []string{"10.1.0.5/24", "fd00::5/64"}, HardwareAddress: "02:00:00:00:00:03"}
	if diff := cmp.Diff(want, got.NetworkData); diff != "" {
		t.Errorf("network data (-want +got):\n%s", diff)
	}
	c := got.Conditions[0]
	if c.Type != "Ready" || c.Status != "True" || c.Reason != "Attached" || c.Message != "network default/blue is attached as net1" {
		t.Errorf("condition %+v", c)
	}
	if got.ShareID == nil || got.Data == nil {
		t.Errorf("share ID %v, data %v", got.ShareID, got.Data)
	}
	failed := asDevice(t, failedState(attachedRecord("net1", ""), errors.New(strings.Repeat("é", maxMessage))))
	if c := failed.Conditions[0]; c.Status != "False" || len(c.Message) > maxMessage || failed.NetworkData != nil || failed.Data != nil {
		t.Errorf("failed: %s, %d bytes, %v", c.Status, len(c.Message), failed.NetworkData)
	}
}

// The API refuses a status over its limits, and then there would be none.
func TestDeviceStatusKeepsTheLimits(t *testing.T) {
	var ips []string
	for i := range 200 {
		ips = append(ips, fmt.Sprintf(`{"address":"10.1.0.%d/24"}`, i))
	}
	big := `{"cniVersion":"1.1.0","ips":[` + strings.Join(ips, ",") + `],"dns":{"domain":"` + strings.Repeat("x", maxStatusData) + `"}}`
	got := asDevice(t, attachedState(attachedRecord("net1", big)))
	if len(got.NetworkData.IPs) > maxStatusIPs || got.Data != nil {
		t.Errorf("%d addresses, data %v", len(got.NetworkData.IPs), got.Data != nil)
	}
}

func TestPodAddresses(t *testing.T) {
	tests := map[string][]string{
		`{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.5/24"},{"address":"10.1.0.5/24"}]}`:                                          {"10.1.0.5/24"},
		`{"cniVersion":"1.1.0","interfaces":[{"name":"net1","sandbox":"x"}],"ips":[{"interface":7,"address":"10.1.0.5/24"}]}`:         nil,
		`{"cniVersion":"1.1.0","interfaces":[{"name":"net1","sandbox":"x"}],"ips":[{"interface":0,"address":"::ffff:10.1.0.5/120"}]}`: {"10.1.0.5/24"},
		`{"cniVersion":"1.1.0"}`: nil,
	}
	for raw, want := range tests {
		var result types100.Result
		if err := json.Unmarshal([]byte(raw), &result); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range podAddresses(&result) {
			got = append(got, p.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
}

// Byte for byte what Multus v4.3.0 writes for the same results.
func TestNetworkStatusForm(t *testing.T) {
	first := &nadv1.NetworkStatus{Name: "cbr0", Interface: "eth0", IPs: []string{"10.244.0.5"}, Mac: "02:00:00:00:00:0a", Default: true, Gateway: []string{"10.244.0.1"}}
	got, err := networkStatus(first, []checkpoint.Record{attachedRecord("net1", bridgeResult)})
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

// Gateways are those that packets leave by; Multus goes on naming those of the
// plugins' results (behaviour A3-40).
func TestNetworkStatusGateways(t *testing.T) {
	noGateway := strings.Replace(bridgeResult, `{"dst":"0.0.0.0/0","gw":"10.1.0.1"}`, `{"dst":"0.0.0.0/0"},{"dst":"::/0","gw":"fd00::1"}`, 1)
	plain := func(result string) checkpoint.Record { return attachedRecord("net1", result) }
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
		"as the result has it":      {[]checkpoint.Record{plain(bridgeResult)}, [][]string{{"10.1.0.1"}}},
		"a route without a gateway": {[]checkpoint.Record{plain(noGateway)}, [][]string{{"fd00::1"}}},
		"moved":                     {[]checkpoint.Record{asks("10.1.0.9"), other}, [][]string{{"10.1.0.9"}, nil}},
		"stripped":                  {[]checkpoint.Record{asks(), other}, [][]string{nil, nil}},
	} {
		text, err := networkStatus(nil, tc.records)
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

// The device's description is in the entry; one that is no description is not.
func TestNetworkStatusDeviceInfo(t *testing.T) {
	for info, want := range map[string]string{
		`{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:03:02.1"},"more":1}`: "0000:03:02.1",
		`["pci"]`: "", ``: "",
	} {
		r := attachedRecord("net1", bridgeResult)
		r.DeviceInfo = json.RawMessage(info)
		text, err := networkStatus(nil, []checkpoint.Record{r})
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

func TestAddedMessage(t *testing.T) {
	if got, want := addedMessage(attachedRecord("net1", bridgeResult)), "Add net1 [10.1.0.5/24 fd00::5/64] from default/blue"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

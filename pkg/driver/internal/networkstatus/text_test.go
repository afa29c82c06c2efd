package networkstatus

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// noLinks is for annotations without entries of others.
func noLinks() ([]string, error) { return nil, errors.New("nobody else has an entry") }

// TestOthersStay checks that what others have added to the annotation stays while it is true: an address of nadra's
// own attachment, and an entry, with fields that nadra does not know, of an interface that the pod has.
func TestOthersStay(t *testing.T) {
	records := []checkpoint.Record{drivertest.Attached("net1", drivertest.BridgeResult)}
	whole, err := Text(nil, records, "", noLinks)
	if err != nil {
		t.Fatal(err)
	}
	const slaac, entry = `"fd00::5",
        "2001:db8::17"`, `{"name":"other/ovn","interface":"ovn0","tunnel":7}`
	added := strings.Replace(whole, `"fd00::5"`, slaac, 1)
	links := func() ([]string, error) { return []string{"lo", "eth0", "net1", "ovn0"}, nil }
	gone := func() ([]string, error) { return []string{"lo", "eth0", "net1"}, nil }
	withEntry := strings.TrimSuffix(added, "]") + "," + entry + "]"
	otherMAC := strings.Replace(added, "02:00:00:00:00:03", "02:00:00:00:00:04", 1)
	for _, tt := range []struct {
		name, before, want string
		links              func() ([]string, error)
		shows, lists       bool
	}{
		{"nothing", "", whole, noLinks, false, false},
		{"no list", "{", whole, noLinks, false, false},
		{"nadra's own", whole, whole, noLinks, true, true},
		{"another address", added, added, noLinks, true, true},
		{"an address of the sandbox before", otherMAC, whole, noLinks, false, false},
		{"another entry", withEntry, withEntry, links, true, true},
		{"an entry of an interface that is gone", withEntry, added, gone, true, false},
		{"only another entry", "[" + entry + "]", strings.TrimSuffix(whole, "]") + "," + entry + "]", links, false, false},
	} {
		got, err := Text(nil, records, tt.before, tt.links)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if shows, lists := Shows(tt.before, records), lists(tt.before, records, tt.links); shows != tt.shows || lists != tt.lists {
			t.Errorf("%s: shows %t, lists %t", tt.name, shows, lists)
		}
	}
}

// primary returns a default network of several interfaces, of which the second has the gateway.
func primary(name string) []*nadv1.NetworkStatus {
	gateways := []string{"<nil>", "10.9.0.1"} // Multus' library gives one list to both
	return []*nadv1.NetworkStatus{
		{Name: name, Interface: "eth0", IPs: []string{"10.244.0.5"}, Gateway: gateways},
		{Name: name, Interface: "udn1", IPs: []string{"10.9.0.5"}, Default: true, Gateway: gateways},
		{Name: name, Interface: "udn2", IPs: []string{"10.8.0.5"}, Gateway: gateways},
	}
}

// TestDefaultNetworkOfSeveralInterfaces checks that no entry counts as somebody else's or as one of
// the pod's additional networks, whatever the default network's name is.
func TestDefaultNetworkOfSeveralInterfaces(t *testing.T) {
	links := func() ([]string, error) { return []string{"lo", "eth0", "udn1", "udn2", "net1"}, nil }
	for _, name := range []string{"ovn-kubernetes", "kube-system/ovn"} {
		records := []checkpoint.Record{drivertest.Attached("net1", drivertest.BridgeResult)}
		whole, err := Text(primary(name), records, "", noLinks)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Text(primary(name), records, whole, links)
		if diff := cmp.Diff(whole, again); err != nil || diff != "" {
			t.Errorf("%s: written again: %v (-want +got):\n%s", name, err, diff)
		}
		// Without the runtime's result, only eth0 is known.
		eth0 := []*nadv1.NetworkStatus{{Name: name, Interface: "eth0", Default: true}}
		incomplete, err := Text(eth0, records, strings.Replace(whole, `"default": true,`, "", 1), links)
		if err != nil || !strings.Contains(incomplete, "udn1") || !strings.Contains(incomplete, "udn2") {
			t.Errorf("%s: without the result: %v\n%s", name, err, incomplete)
		}
		shown, err := Shown(whole)
		if err != nil || len(shown) != 1 || shown[0].Interface != "net1" {
			t.Errorf("%s: shown %+v, %v", name, shown, err)
		}
		if !lists(whole, records, links) || !Shows(whole, records) {
			t.Errorf("%s: the annotation does not list the network", name)
		}
		want := primary(name)
		for _, entry := range want {
			entry.Gateway = []string{"10.9.0.1"}
		}
		if diff := cmp.Diff(want, DefaultEntries(whole)); diff != "" {
			t.Errorf("%s: default entries (-want +got):\n%s", name, diff)
		}
		gateways := []string{"10.1.0.9"}
		records[0].Attachment.DefaultRoute = &gateways
		moved, err := Text(primary(name), records, "", noLinks)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range DefaultEntries(moved) {
			if entry.Gateway != nil {
				t.Errorf("%s: after default-route, %s has gateways %v", name, entry.Interface, entry.Gateway)
			}
		}
	}
}

// TestNetworkStatusForm compares the annotation byte by byte with what Multus v4.3.0 writes.
func TestNetworkStatusForm(t *testing.T) {
	first := []*nadv1.NetworkStatus{{Name: "cbr0", Interface: "eth0", IPs: []string{"10.244.0.5"}, Mac: "02:00:00:00:00:0a", Default: true, Gateway: []string{"10.244.0.1"}}}
	got, err := Text(first, []checkpoint.Record{drivertest.Attached("net1", drivertest.BridgeResult)}, "", noLinks)
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
		text, err := Text(nil, tc.records, "", noLinks)
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
		text, err := Text(nil, []checkpoint.Record{r}, "", noLinks)
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
	whole, err := Text(first, records, "", noLinks)
	if err != nil {
		t.Fatal(err)
	}
	first[0].IPs = []string{"10.0.0.9"}
	other, err := Text(first, nil, "", noLinks)
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

// TestManyEntriesOfOthers checks that entries of other interfaces cost nothing for each network of the pod: their number is a
// tenant's choice, and the status of other pods waits meanwhile.
func TestManyEntriesOfOthers(t *testing.T) {
	const entries = 1000
	before := "[" + strings.Repeat(`{"name":"a/b","interface":"lo"},`, entries-1) + `{"name":"a/b","interface":"lo"}]`
	cost := func(records int) float64 {
		all := slices.Repeat([]checkpoint.Record{drivertest.Attached("net1", drivertest.BridgeResult)}, records)
		return testing.AllocsPerRun(1, func() {
			text, err := Text(nil, all, before, func() ([]string, error) { return []string{"lo"}, nil })
			if err != nil || strings.Count(text, `"lo"`) != entries {
				t.Errorf("%d entries of others: %v", strings.Count(text, `"lo"`), err)
			}
		})
	}
	if one, many := cost(1), cost(11); many-one > 5*entries {
		t.Errorf("%v allocations for one network, %v for eleven", one, many)
	}
}

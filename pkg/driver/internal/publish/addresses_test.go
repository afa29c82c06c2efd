package publish

import (
	"testing"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

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
		{`{"type":"host-local","subnet":"10.0.0.0/24","rangeStart":"10.0.0.10","rangeEnd":"10.0.0.10"}`, 1},
		{`{"type":"host-local","subnet":"10.0.0.0/24","rangeStart":"10.0.0.10","rangeEnd":"10.0.0.12","gateway":"10.0.0.10"}`, 2},
		{`{"type":"host-local","subnet":"10.0.0.0/24","rangeStart":"10.0.0.10","rangeEnd":"10.0.0.12","gateway":"10.0.0.12"}`, 2},
		{`{"type":"host-local","subnet":"10.0.0.0/24","rangeStart":"10.0.0.10","rangeEnd":"10.0.0.10","gateway":"10.0.0.10"}`, 0},
		{`{"type":"host-local","subnet":"10.0.0.0/24","rangeStart":"::ffff:10.0.0.10","rangeEnd":"10.0.0.12"}`, 3},
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

// TestNoAddresses checks that a network without addresses is not published: the API server would refuse the
// slice, and with it all networks.
// TestOnlyAttachment checks which networks a node can have once.
func TestOnlyAttachment(t *testing.T) {
	for config, want := range map[string]int64{
		`"type":"vlan","master":"lan0","vlanId":112,"ipam":{"type":"host-local","subnet":"10.20.4.0/24"}`: 1,
		`"type":"vlan","master":"lan0","vlanId":112`:                                                      1,
		`"type":"vlan","master":"net1","linkInContainer":true,"vlanId":112`:                               -1,
		`"type":"host-device","device":"ens1"`:                                                            1,
		`"type":"host-device","pciBusID":"0000:3b:02.0"`:                                                  1,
		`"type":"host-device"`:             -1, // a device of a pool
		`"type":"macvlan","master":"lan0"`: -1,
		`"type":"host-device","device":"ens1","ipam":{"type":"host-local","subnet":"10.0.0.0/24","rangeStart":"10.0.0.20","rangeEnd":"10.0.0.10"}`: 0,
	} {
		n, err := attachment.ParseNetwork(drivertest.NAD("n", `{"cniVersion":"1.0.0",`+config+`}`))
		if err != nil {
			t.Fatal(err)
		}
		got, ok := addressCount(n)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%s: %d, want %d", config, got, want)
		}
	}
}

func TestNoAddresses(t *testing.T) {
	b := newBench(t)
	_ = b.nads.Add(drivertest.NAD("red", drivertest.RedConf))
	_ = b.nads.Add(drivertest.NAD("none", `{"cniVersion":"1.0.0","type":"bridge","ipam":{"type":"host-local","subnet":"10.0.0.0/24","rangeStart":"10.0.0.20","rangeEnd":"10.0.0.10"}}`))
	b.sync(t)
	if got := b.Published(); len(got) != 1 || got[0] != "node-0-0" {
		t.Errorf("published %v", got)
	}
	_, err := b.View.Usable(attachment.NetworkRef{Namespace: "default", Name: "none"})
	if reason.Of(err) != reason.NetworkInvalid {
		t.Errorf("error %v", err)
	}
}

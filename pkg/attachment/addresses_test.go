package attachment

import "testing"

// TestMostPerNode checks that ranges count as host-local assigns addresses.
func TestMostPerNode(t *testing.T) {
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
		n, err := ParseNetwork(nad(`{"cniVersion":"1.0.0","type":"bridge","ipam":` + tt.ipam + `}`))
		if err != nil {
			t.Fatal(err)
		}
		got, ok := n.MostPerNode()
		if !ok {
			got = -1
		}
		if got != tt.want {
			t.Errorf("%s: %d addresses, want %d", tt.ipam, got, tt.want)
		}
	}
}

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
		n, err := ParseNetwork(nad(`{"cniVersion":"1.0.0",` + config + `}`))
		if err != nil {
			t.Fatal(err)
		}
		got, ok := n.MostPerNode()
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%s: %d, want %d", config, got, want)
		}
	}
}

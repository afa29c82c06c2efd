package publish

import (
	"testing"

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

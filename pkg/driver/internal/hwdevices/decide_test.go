package hwdevices

import (
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/inventory"
	"github.com/nadra-dev/nadra/pkg/pools"
	"github.com/nadra-dev/nadra/test/drivertest"
)

func TestDecide(t *testing.T) {
	down := &inventory.PF{Name: "lan9", PCIAddress: "0000:01:00.0", Link: inventory.LinkDown}
	whole := func(n inventory.Netdev) func(*Device) {
		return func(d *Device) { d.Functions[0].Netdevs = []inventory.Netdev{n} }
	}
	for name, tt := range map[string]struct {
		change  func(*Device)
		foreign bool // the node is not nadra's
		want    reason.Code
		message string
		claimed reason.Code
	}{
		"offered":                  {change: func(*Device) {}},
		"of a node not nadra's":    {change: func(*Device) {}, foreign: true, want: reason.NodeNotOwned},
		"used by a device plugin":  {change: func(d *Device) { d.UsedBy = "default/p" }, want: reason.PoolConflict, message: "default/p", claimed: reason.PoolConflict},
		"used, and not nadra's":    {change: func(d *Device) { d.UsedBy = "default/p" }, foreign: true, want: reason.PoolConflict, claimed: reason.PoolConflict},
		"its PF has no link":       {change: func(d *Device) { d.Functions[0].PF = down }, want: reason.LinkDown, message: "lan9 (0000:01:00.0)"},
		"its PF has no link, used": {change: func(d *Device) { d.Functions[0].PF, d.UsedBy = down, "a/b" }, want: reason.PoolConflict, claimed: reason.PoolConflict},
		"shared":                   {change: func(d *Device) { d.Functions[0].PF, d.Pool.DeviceType = down, pools.SharedRDMA }},
		"not set up":               {change: whole(inventory.Netdev{Name: "a", Link: inventory.LinkDown})},
		"set up without a carrier": {change: whole(inventory.Netdev{Name: "a", Link: inventory.LinkDown, Up: true}), want: reason.LinkDown, message: "link a "},
		"set up":                   {change: whole(inventory.Netdev{Name: "a", Link: inventory.LinkUp, Up: true})},
	} {
		t.Run(name, func(t *testing.T) {
			d := &Device{Functions: []inventory.Function{{}}}
			tt.change(d)
			err := decide(d, !tt.foreign)
			drivertest.Same(t, "reason", tt.want, reason.Of(err))
			if tt.want == "" && err != nil || tt.want != "" && !strings.Contains(err.Error(), tt.message) {
				t.Errorf("decision %v", err)
			}
			drivertest.Same(t, "for its claim", tt.claimed, reason.Of(d.Claimed()))
		})
	}
}

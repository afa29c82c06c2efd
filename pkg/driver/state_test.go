package driver

import (
	"testing"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
	"github.com/nadra-dev/nadra/pkg/inventory"
	"github.com/nadra-dev/nadra/pkg/pools"
)

// Networks are told apart by what keeps them from being offered.
func TestNetworksAreCounted(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf), nad("red", redConf), nad("absent", `{"cniVersion":"1.0.0","type":"absent"}`), nad("unwell", `{"cniVersion":"1.1.0","type":"bridge"}`))
	candidates := d.networks.byRef
	pooled := candidates[attachment.NetworkRef{Namespace: "default", Name: "red"}]
	vf := *pooled.definition
	vf.network.ResourceName = "intel.com/sriov"
	candidates[attachment.NetworkRef{Namespace: "default", Name: "vf"}] = candidate{definition: &vf}
	h := newHealth(&d.quiet, nil)
	h.away[attachment.NetworkRef{Namespace: "default", Name: "unwell"}] = true
	h.away[attachment.NetworkRef{Namespace: "default", Name: "blue"}] = false // it was once
	p := &publisher{networks: d.networks, health: h}
	for _, tt := range []struct {
		ours bool
		want map[metrics.Device]int
	}{
		{true, map[metrics.Device]int{{Pool: "networks", State: "offered"}: 2, {Pool: "networks", State: "unusable"}: 1, {Pool: "networks", State: metrics.DeviceUnhealthy}: 1, {Pool: "networks", State: "not_owned"}: 0}},
		{false, map[metrics.Device]int{{Pool: "networks", State: "offered"}: 0, {Pool: "networks", State: "unusable"}: 1, {Pool: "networks", State: metrics.DeviceUnhealthy}: 0, {Pool: "networks", State: "not_owned"}: 3}},
	} {
		got := map[metrics.Device]int{}
		p.count(tt.ours, got)
		drivertest.Same(t, "devices", tt.want, got)
	}
}

// Functions are counted once, whatever the number of copies, and those that are
// no more not at all.
func TestFunctionsAreCounted(t *testing.T) {
	function := func(pool, name string) hardwareDevice {
		return hardwareDevice{DRAPool: "node-1/" + pool, Name: name, Functions: []inventory.Function{{ID: name}}}
	}
	down := function("pf-0000-3b-00-0", "down")
	down.Functions[0].PF = &inventory.PF{Link: inventory.LinkDown}
	taken := function("pf-0000-3b-00-0", "taken")
	taken.Withheld = "a device plugin has given it away"
	shared := function("functions", "hca")
	shared.Pool.DeviceType = pools.SharedRDMA
	var h hardware
	h.set([]hardwareDevice{function("pf-0000-3b-00-0", "gone"), function("pf-0000-3b-00-0", "good"), down, taken, shared}, 3)
	h.set([]hardwareDevice{function("pf-0000-3b-00-0", "good"), down, taken, shared}, 3)
	of := func(pool, state string) metrics.Device { return metrics.Device{Pool: pool, State: state} }
	got := map[metrics.Device]int{}
	h.count("node-1", true, got)
	drivertest.Same(t, "devices", map[metrics.Device]int{
		of("pf-0000-3b-00-0", "offered"): 1, of("pf-0000-3b-00-0", "link_down"): 1, of("pf-0000-3b-00-0", "withheld"): 1, of("pf-0000-3b-00-0", "not_owned"): 0,
		of("functions", "offered"): 1, of("functions", "link_down"): 0, of("functions", "withheld"): 0, of("functions", "not_owned"): 0,
	}, got)
	got = map[metrics.Device]int{}
	h.count("node-1", false, got)
	drivertest.Same(t, "on a node of another", 2, got[of("pf-0000-3b-00-0", "not_owned")])
}

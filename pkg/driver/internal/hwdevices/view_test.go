package hwdevices

import (
	"testing"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/inventory"
	"github.com/nadra-dev/nadra/pkg/pools"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// TestFunctionsAreCounted checks that functions are counted once, whatever the number of
// copies, and that those that are gone are not counted.
func TestFunctionsAreCounted(t *testing.T) {
	function := func(pool, name string) Device {
		return Device{DRAPool: "node-1/" + pool, Name: name, Functions: []inventory.Function{{ID: name}}}
	}
	down := function("pf-0000-3b-00-0", "down")
	down.Functions[0].PF = &inventory.PF{Link: inventory.LinkDown}
	used := function("pf-0000-3b-00-0", "used")
	used.UsedBy = "default/p"
	shared := function("functions", "hca")
	shared.Pool.DeviceType = pools.SharedRDMA
	var v View
	v.Set([]Device{function("pf-0000-3b-00-0", "gone"), function("pf-0000-3b-00-0", "good"), down, used, shared}, 3)
	v.Set([]Device{function("pf-0000-3b-00-0", "good"), down, used, shared}, 3)
	of := func(pool, state string) metrics.Device { return metrics.Device{Pool: pool, State: state} }
	got := map[metrics.Device]int{}
	v.Count("node-1", true, got)
	drivertest.Same(t, "devices", map[metrics.Device]int{
		of("pf-0000-3b-00-0", "offered"): 1, of("pf-0000-3b-00-0", "link_down"): 1, of("pf-0000-3b-00-0", "withheld"): 1, of("pf-0000-3b-00-0", "not_owned"): 0,
		of("functions", "offered"): 1, of("functions", "link_down"): 0, of("functions", "withheld"): 0, of("functions", "not_owned"): 0,
	}, got)
	got = map[metrics.Device]int{}
	v.Count("node-1", false, got)
	drivertest.Same(t, "on a node that is not nadra's", 2, got[of("pf-0000-3b-00-0", "not_owned")])
}

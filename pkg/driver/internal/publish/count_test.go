package publish

import (
	"testing"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// TestNetworksAreCounted checks that networks are counted by what keeps them from being
// offered.
func TestNetworksAreCounted(t *testing.T) {
	inStatusBench(t, func(t *testing.T, c *statusBench) {
		c.master(true)
		c.Missing = func(types []string) (out []string) {
			if types[0] == "absent" {
				out = types
			}
			return out
		}
		for name, config := range map[string]string{
			"blue": drivertest.BlueConf, "red": drivertest.RedConf, "absent": `{"cniVersion":"1.0.0","type":"absent"}`,
			"failing": `{"cniVersion":"1.1.0","type":"bridge"}`,
		} {
			c.add(name, config)
		}
		vf := drivertest.NAD("vf", drivertest.RedConf)
		vf.Annotations = map[string]string{attachment.ResourceNameAnnotation: "intel.com/sriov"}
		_ = c.nads.Add(vf)
		c.set("failing", notReady)
		c.begin(t)
		of := func(state string) metrics.Device { return metrics.Device{Pool: "networks", State: state} }
		count := func() map[metrics.Device]int {
			after(2 * debounce)
			out := map[metrics.Device]int{}
			c.View.Count(out)
			return out
		}
		drivertest.Same(t, "devices", map[metrics.Device]int{of("offered"): 2, of("unusable"): 1, of("lost"): 0, of(metrics.DeviceUnhealthy): 1, of("not_owned"): 0}, count())
		c.own(false)
		c.Trigger()
		drivertest.Same(t, "devices of a node that is not nadra's", map[metrics.Device]int{of("offered"): 0, of("unusable"): 1, of("lost"): 0, of(metrics.DeviceUnhealthy): 0, of("not_owned"): 3}, count())
	})
}

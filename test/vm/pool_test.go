//go:build e2e

package vm

import (
	"context"
	"fmt"
	"testing"

	"github.com/nadra-dev/nadra/test/lab"
)

// TestPools runs pods on networks that draw from resource pools, as the SR-IOV device
// plugin's ConfigMap defines them. All networks with VFs work so: pools, a NAD that names
// one, its class, pods.
func TestPools(t *testing.T) {
	f := scenario(t, "pools")
	f.pools(map[string][]string{"left": {"pf0#0-1"}, "right": {"pf1#0-1"}}, withRDMA)
	for _, side := range []string{"left", "right"} {
		f.poolNAD(side, "intel.com/"+side,
			object{"type": "host-device", "capabilities": object{"deviceID": true}, "ipam": f.hostLocal()}, object{"type": "rdma"})
	}
	testCase(t, "functions of a ConfigMap's pools become devices", func(t *testing.T) {
		err := lab.Eventually(f.ctx, podLimit, func(ctx context.Context) error {
			devices, err := f.poolDevices(ctx)
			if err != nil {
				return err
			}
			if len(devices["intel.com/left"]) != 2 || len(devices["intel.com/right"]) != 2 {
				return fmt.Errorf("devices by their resources: %v; two are to be in each of intel.com/left and intel.com/right", devices)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	f.createOf("a", "left")
	f.createOf("b", "left")
	f.createOf("c", "right")
	a, inA := f.ready("a")
	_, inB := f.ready("b")
	_, inC := f.ready("c")
	host, err := f.Guest.Net(f.ctx)
	f.must(err)
	testCase(t, "a pod draws a VF from a pool", func(t *testing.T) {
		if host.Link("pf0v0") != nil || host.Link("pf0v1") != nil {
			t.Error("the guest still has functions of the pool that is used up")
		}
		for pod, seen := range map[string]int{"a": len(inA.RDMA), "b": len(inB.RDMA), "c": len(inC.RDMA)} {
			if seen != 1 {
				t.Errorf("pod %s has %d RDMA devices, not one", pod, seen)
			}
		}
		if len(host.RDMA) != 1 {
			t.Errorf("the guest has RDMA devices %v; three of four are to be in pods", host.RDMA)
		}
	})
	testCase(t, "VFs of a pool of one card", func(t *testing.T) { f.ping(t, a, "net1", f.addressOf(t, "b", "left")) })
	testCase(t, "VFs of the pools of two cards", func(t *testing.T) { f.ping(t, a, "net1", f.addressOf(t, "c", "right")) })
	testCase(t, "VFs of pools go back", f.leavesNothing)
}

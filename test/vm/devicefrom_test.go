//go:build e2e

package vm

import (
	"context"
	"errors"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/lab"
)

// vfDriver is a DRA driver of virtual functions that nadra does not publish.
const vfDriver = "vf.example.com"

// TestChainOnAnothersFunction runs a chain of plugins on a virtual function that another driver has allocated in the
// pod's claim. nadra gives each plugin the function and restores nothing of it: the plugins' DELs do.
func TestChainOnAnothersFunction(t *testing.T) {
	for _, m := range movers() {
		t.Run(m.name, func(t *testing.T) {
			if m.name != "sriov" || haveSRIOV(t, chainHasFunction, chainGivesBack) {
				testChain(t, m.name)
			}
		})
	}
}

// The cases of each plugin that moves a function.
const (
	chainHasFunction = "a chain gets another driver's VF, with its RDMA device"
	chainGivesBack   = "and gives it back after the death of nadra's driver"
)

func testChain(t *testing.T, mover string) {
	const link, address = "pf0v1", "10.42.0.9/24"
	f := scenario(t, "chain-"+mover)
	f.nad("chain", object{"type": mover, "ipam": static(address)},
		object{"type": "tuning", "mtu": 1400, "sysctl": object{"net.ipv4.conf.IFNAME.arp_ignore": "1"}}, object{"type": "rdma"})
	_, err := f.Cluster.Kubectl(f.ctx, "-n", f.ns, "annotate", "net-attach-def", "chain", attachment.DeviceFromAnnotation+"=required")
	f.must(err)
	id := function(t, link)
	f.otherDriver(vfDriver, "vf-1,resource.kubernetes.io/pciBusID="+id+",k8s.cni.cncf.io/deviceID="+id)
	template := lab.Template(f.ns, "a", lab.Want{Network: "chain", Config: object{"deviceFrom": "vf", "interface": "data"}})
	template.Spec.Spec.Devices.Requests = append(template.Spec.Spec.Devices.Requests, resourceapi.DeviceRequest{
		Name: "vf", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: vfDriver},
	})
	f.must(f.CreateTemplate(f.ctx, template))
	before, err := f.Guest.Net(f.ctx)
	f.must(err)
	f.start(lab.Pod(f.ns, "a", "a"))
	_, inPod := f.ready("a")
	host, err := f.Guest.Net(f.ctx)
	f.must(err)

	testCase(t, chainHasFunction, func(t *testing.T) {
		data := requireLink(t, inPod, "data", "device", address)
		if data.MAC != before.Link(link).MAC || data.MTU != 1400 || host.Link(link) != nil {
			t.Errorf("the pod has %+v, want %s with tuning's MTU; the host has %v", data, link, host.Link(link))
		}
		if want := []string{"rxe01"}; !slices.Equal(inPod.RDMA, want) || slices.Contains(host.RDMA, "rxe01") {
			t.Errorf("the pod has RDMA devices %v and the host %v, want %v in the pod only", inPod.RDMA, host.RDMA, want)
		}
	})
	testCase(t, chainGivesBack, func(t *testing.T) {
		before, err := f.driverRestarts()
		f.must(err)
		f.shell(`for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" = nadra-node ] && kill -9 ${p#/proc/}; done; true`)
		f.eventually(t, func(context.Context) error {
			after, err := f.driverRestarts()
			if err == nil && after == before {
				err = errors.New("the driver was not restarted")
			}
			return err
		})
		f.must(f.WaitDriver(f.ctx))
		f.leavesNothing(t)
	})
}

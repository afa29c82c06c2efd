//go:build e2e

package vm

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/test/lab"
	"github.com/nadra-dev/nadra/test/vm/wire"
)

// TestChains runs the plugins for which this machine's own kernel has no drivers, in common
// chains. One pair of pods has all of them, because a pod takes seconds.
func TestChains(t *testing.T) {
	f := scenario(t, "chains", bonded, preparation{
		do: "ip link set pf0v2 up; ip link set pf1v2 up", undo: "ip link set pf0v2 down; ip link set pf1v2 down",
	})
	// Both pods are on one node and would get the same addresses from the networks'
	// configurations, so each pod has NADs of its own.
	for i, pod := range []string{"a", "b"} {
		for name, plugins := range chains(i) {
			f.nad(name+"-"+pod, plugins...)
		}
	}
	var published []string
	for _, pod := range []string{"a", "b"} {
		for name := range chains(0) {
			published = append(published, f.ns+"/"+name+"-"+pod)
		}
	}
	testCase(t, "networks become devices of the node", func(t *testing.T) {
		if err := f.Published(f.ctx, published...); err != nil {
			t.Fatal(err)
		}
	})
	for i, pod := range []string{"a", "b"} {
		var wants []lab.Want
		for name := range chains(i) {
			wants = append(wants, lab.Want{Network: name + "-" + pod, Config: object{"interface": name}})
		}
		f.createWith(pod, wants...)
	}
	a, inA := f.ready("a")
	b, inB := f.ready("b")

	testCase(t, "ipvlan on a physical function", func(t *testing.T) {
		if link := requireLink(t, inA, "ipv", "ipvlan", "10.30.1.1/24"); link.Mode != "l2" {
			t.Errorf("its mode is %q, not l2", link.Mode)
		}
		f.ping(t, a, "ipv", "10.30.1.2")
	})
	testCase(t, "macvlan on a physical function", func(t *testing.T) {
		if link := requireLink(t, inB, "macv", "macvlan", "10.30.2.2/24"); link.Mode != "bridge" {
			t.Errorf("its mode is %q, not bridge", link.Mode)
		}
		f.ping(t, b, "macv", "10.30.2.1")
	})
	testCase(t, "vlan from card to card", func(t *testing.T) {
		if link := requireLink(t, inA, "tagged", "vlan", "10.30.3.1/24"); link.VLAN != 42 {
			t.Errorf("its VLAN is %d, not 42", link.VLAN)
		}
		f.ping(t, a, "tagged", "10.30.3.2")
	})
	testCase(t, "dummy", func(t *testing.T) {
		requireLink(t, inA, "dum", "dummy", "10.30.4.1/24")
		requireLink(t, inB, "dum", "dummy", "10.30.4.2/24")
	})
	testCase(t, "macvlan and vrf", func(t *testing.T) { f.checkVRF(t, a, inA) })
	testCase(t, "macvlan and sbr", func(t *testing.T) { f.checkSBR(t, a, inA) })
	testCase(t, "macvlan and tuning", func(t *testing.T) { f.checkTuning(t, a, inA) })
	testCase(t, "macvlan on a bond of virtual functions", func(t *testing.T) {
		requireLink(t, inA, "onbond", "macvlan", "10.30.8.1/24")
		f.ping(t, a, "onbond", "10.30.8.2")
	})
	testCase(t, "chains leave nothing behind", f.leavesNothing)
}

// chains returns the networks of pod number 0 or 1, by the names of their interfaces.
func chains(number int) map[string][]object {
	address := func(network int) object { return static(fmt.Sprintf("10.30.%d.%d/24", network, number+1)) }
	macvlan := func(master string, ipam object) object {
		return object{"type": "macvlan", "master": master, "mode": "bridge", "ipam": ipam}
	}
	routed := address(6)
	routed["addresses"].([]object)[0]["gateway"] = "10.30.6.254"
	routed["routes"] = []object{{"dst": "10.99.6.0/24"}}
	return map[string][]object{
		"ipv":  {{"type": "ipvlan", "master": "pf0", "mode": "l2", "ipam": address(1)}},
		"macv": {macvlan("pf1", address(2))},
		// An interface cannot have one VLAN twice, so the two are on two cards. They are on
		// virtual functions, because QEMU's igb passes tagged frames to no physical
		// function.
		"tagged": {{"type": "vlan", "master": fmt.Sprintf("pf%dv2", number), "vlanId": 42, "ipam": address(3)}},
		"dum":    {{"type": "dummy", "ipam": address(4)}},
		"invrf":  {macvlan("pf1", address(5)), {"type": "vrf", "vrfname": "blue"}},
		"bysrc":  {macvlan("pf1", routed), {"type": "sbr"}},
		"tuned": {macvlan("pf1", address(7)), {
			"type": "tuning", "mac": fmt.Sprintf("02:00:00:00:07:0%d", number+1), "mtu": 1400,
			"sysctl": object{"net.ipv4.conf.IFNAME.arp_filter": "1"},
		}},
		"onbond": {macvlan("bond0", address(8))},
	}
}

// bonded joins a virtual function of each card. It uses sysfs, because busybox does not
// support bonds.
var bonded = preparation{
	do: `echo +bond0 >/sys/class/net/bonding_masters
echo active-backup >/sys/class/net/bond0/bonding/mode
echo 100 >/sys/class/net/bond0/bonding/miimon
echo +pf0v3 >/sys/class/net/bond0/bonding/slaves
echo +pf1v3 >/sys/class/net/bond0/bonding/slaves
ip link set bond0 up`,
	undo: `echo -bond0 >/sys/class/net/bonding_masters`,
}

func (f *fixture) checkVRF(t *testing.T, pod *corev1.Pod, seen wire.Net) {
	link := requireLink(t, seen, "invrf", "macvlan", "10.30.5.1/24")
	vrf := seen.Link("blue")
	if vrf == nil || vrf.Kind != "vrf" || link.Master != "blue" {
		t.Fatalf("the interface's master is %q, and the VRF is %+v", link.Master, vrf)
	}
	for _, route := range seen.Routes {
		if route.Destination == "10.30.5.0/24" && route.Table != int(vrf.Table) {
			t.Errorf("the network's route is in table %d, not in the VRF's %d", route.Table, vrf.Table)
		}
	}
	f.ping(t, pod, "invrf", "10.30.5.2")
}

func (f *fixture) checkSBR(t *testing.T, pod *corev1.Pod, seen wire.Net) {
	requireLink(t, seen, "bysrc", "macvlan", "10.30.6.1/24")
	table := 0
	for _, rule := range seen.Rules {
		if rule.From == "10.30.6.1/32" {
			table = rule.Table
		}
	}
	if table == 0 {
		t.Fatalf("no rule is for the interface's address: %+v", seen.Rules)
	}
	found := false
	for _, route := range seen.Routes {
		found = found || route.Table == table && route.Gateway == "10.30.6.254" && route.Link == "bysrc"
	}
	if !found {
		t.Errorf("table %d has no route by the gateway: %+v", table, seen.Routes)
	}
	f.ping(t, pod, "bysrc", "10.30.6.2")
}

func (f *fixture) checkTuning(t *testing.T, pod *corev1.Pod, seen wire.Net) {
	link := requireLink(t, seen, "tuned", "macvlan", "10.30.7.1/24")
	if link.MAC != "02:00:00:00:07:01" || link.MTU != 1400 {
		t.Errorf("it has MAC %s and MTU %d", link.MAC, link.MTU)
	}
	value, err := f.Guest.RunInPod(f.ctx, pod, "cat", "/proc/sys/net/ipv4/conf/tuned/arp_filter")
	if err != nil || strings.TrimSpace(value) != "1" {
		t.Errorf("arp_filter is %q (%v), not 1", value, err)
	}
	f.ping(t, pod, "tuned", "10.30.7.2")
}

// TestBondStays moves a bond to a pod, which the kernel refuses. The pod's Events must name
// the bond, and the bond must not change.
func TestBondStays(t *testing.T) {
	f := scenario(t, "bond", bonded)
	f.nad("moved", object{"type": "host-device", "device": "bond0"})
	f.create("a", "moved")
	testCase(t, "a bond by host-device is refused, with the kernel's reason", func(t *testing.T) {
		err := lab.Eventually(f.ctx, podLimit, func(ctx context.Context) error {
			events := strings.Join(f.Events(ctx, f.ns, "a"), "\n")
			if !strings.Contains(events, "bond0") {
				return fmt.Errorf("no Event names bond0: %s", events)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	testCase(t, "a refused bond leaves nothing behind", f.leavesNothing)
}

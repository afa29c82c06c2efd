package snapshot

import (
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// changes are changes of the sample, before or now, each with the difference that Compare
// reports. Compare reports no other warning or blocker.
var changes = []struct {
	code Code
	says string
	was  func(*Snapshot)
	now  func(*Snapshot)
}{
	{PodMissing, "", nil, func(s *Snapshot) { s.Pods = s.Pods[1:] }},
	{PodMissing, "du-0 … Pending … no node", nil, func(s *Snapshot) {
		s.Pods, s.NotRunning = s.Pods[1:], []NotRunning{{Namespace: "ran", Name: "du-0", Phase: "Pending", Why: "no node"}}
	}},
	{PodAdditional, "", func(s *Snapshot) { s.Pods = s.Pods[1:] }, nil},
	{PodRecreated, "", nil, func(s *Snapshot) { s.Pods[0].UID = "u9" }},
	{NodeOther, "n1 … n2", nil, func(s *Snapshot) { s.Pods[0].Node = "n2" }},
	{SystemOther, "multus … nadra", nil, func(s *Snapshot) {
		for i := range s.Pods[0].Interfaces {
			s.Pods[0].Interfaces[i].By = Nadra
		}
	}},
	{HostNetwork, "hostNetwork … false … true", nil, func(s *Snapshot) { s.Pods[0].HostNetwork = true }},
	{PodEnded, "it does not run now", nil, func(s *Snapshot) { s.Pods = s.Pods[:1] }},
	{NotCompared, "--probe", nil, func(s *Snapshot) { s.Nodes, s.Pods[0].Observed = nil, nil }},
	{NotCompared, "no image", nil, func(s *Snapshot) {
		s.Nodes[0].Errors, s.Pods[0].Observed = []string{"no image"}, nil
	}},
	{NotCompared, "snapshot", func(s *Snapshot) { s.Pods[0].Observed = nil }, nil},
	{NotCompared, "no right", nil, func(s *Snapshot) { s.Pods[0].Observed.Errors = []string{"no right"} }},

	{NetworkMissing, "net2 (ran/vf)", nil, withoutVF},
	{NetworkMissing, "Failed … no free function", nil, func(s *Snapshot) {
		withoutVF(s)
		s.Pods[0].Lacking = []Lack{{Network: "ran/vf", State: "Failed", Reason: "no free function"}}
	}},
	{NetworkMissing, "ran/new … Waiting", nil, func(s *Snapshot) {
		s.Pods[0].Lacking = []Lack{{Network: "ran/new", State: "Waiting"}}
	}},
	{NetworkAdded, "net3 (ran/more)", nil, func(s *Snapshot) {
		s.Pods[0].Interfaces = append(s.Pods[0].Interfaces, Interface{Network: "ran/more", Name: "net3"})
	}},
	{NetworkAdded, "dummy0 (dummy)", nil, func(s *Snapshot) {
		s.Pods[0].Observed.Links = append(s.Pods[0].Observed.Links, probe.Link{Name: "dummy0", Kind: "dummy"})
	}},
	{Renamed, "f1 (ran/f1) … net1", nil, func(s *Snapshot) {
		s.Pods[0].Interfaces[1].Name, s.Pods[0].Observed.Links[1].Name = "net1", "net1"
		for i := range s.Pods[0].Observed.Routes {
			s.Pods[0].Observed.Routes[i].Interface = strings.Replace(s.Pods[0].Observed.Routes[i].Interface, "f1", "net1", 1)
		}
	}},
	{OrderOther, "f1 (ran/f1), net2 (ran/vf) … net2 (ran/vf), f1 (ran/f1)", nil, func(s *Snapshot) { slices.Reverse(s.Pods[0].Interfaces[1:]) }},
	{DefaultOther, "eth0 (cbr0) … eth0 (k8s-pod-network)", nil, func(s *Snapshot) { s.Pods[0].Interfaces[0].Network = "k8s-pod-network" }},
	{DefaultOther, "", nil, func(s *Snapshot) { s.Pods[0].Interfaces = s.Pods[0].Interfaces[1:] }},
	{CheckFailed, "f1 (ran/f1) … no address", nil, func(s *Snapshot) { s.Pods[0].Interfaces[1].Problem = "no address" }},

	{MACLost, "02:00:00:00:00:07 … 02:00:00:00:00:08", nil, func(s *Snapshot) { s.Pods[0].Interfaces[1].MAC = "02:00:00:00:00:08" }},
	{MACLost, "net2 (ran/vf)", func(s *Snapshot) { s.Networks[1].MAC = "1e:00:00:00:00:01" }, func(s *Snapshot) { s.Pods[0].Interfaces[2].MAC = "1e:00:00:00:00:02" }},
	{MACOther, "1e:00:00:00:00:01 … 1e:00:00:00:00:02", nil, func(s *Snapshot) { s.Pods[0].Interfaces[2].MAC = "1e:00:00:00:00:02" }},
	{MTUOther, "f1 (ran/f1) … 9000 … 1500", nil, func(s *Snapshot) { s.Pods[0].Observed.Links[1].MTU = 1500 }},
	{MTUOther, "9000 … 1500", notObserved, func(s *Snapshot) { notObserved(s); s.Pods[0].Interfaces[1].MTU = 1500 }},
	{AddressLost, "10.3.0.7 … 10.3.0.8", nil, func(s *Snapshot) { s.Pods[0].Interfaces[1].IPs[0] = "10.3.0.8" }},
	{AddressLost, "10.6.0.10", func(s *Snapshot) { s.Networks[1].Static = []string{"10.6.0.10"} }, func(s *Snapshot) { s.Pods[0].Interfaces[2].IPs = nil }},
	{AddressOther, "fd03::7 … fd03::8", nil, func(s *Snapshot) { s.Pods[0].Interfaces[1].IPs[1] = "fd03::8" }},
	{AddressOther, "10.6.0.10 … 10.6.0.11", nil, func(s *Snapshot) { s.Pods[0].Interfaces[2].IPs[0] = "10.6.0.11" }},
	{SubnetOther, "10.6.0.10 … 10.7.0.10", nil, func(s *Snapshot) { s.Pods[0].Interfaces[2].IPs[0] = "10.7.0.10" }},
	{SubnetUnknown, "10.6.0.10 … 10.6.0.11", notObserved, func(s *Snapshot) { notObserved(s); s.Pods[0].Interfaces[2].IPs[0] = "10.6.0.11" }},
	{AddressFewer, "fd03::7", nil, func(s *Snapshot) { s.Pods[0].Interfaces[1].IPs = []string{"10.3.0.7"} }},
	{AddressAdded, "fd06::1", nil, func(s *Snapshot) { s.Pods[0].Interfaces[2].IPs = append(s.Pods[0].Interfaces[2].IPs, "fd06::1") }},
	{DNSOther, "10.3.0.1", nil, func(s *Snapshot) { s.Pods[0].Interfaces[1].DNS = nil }},

	{DeviceLost, "pci 0000:03:02.0", nil, func(s *Snapshot) { s.Pods[0].Interfaces[2].Device = nil }},
	{DeviceLost, "pci … vdpa", nil, func(s *Snapshot) { s.Pods[0].Interfaces[2].Device.Type = "vdpa" }},
	{DeviceLost, "mlx5_2", nil, func(s *Snapshot) { s.Pods[0].Interfaces[2].Device.RDMA = "" }},
	{DevicePinned, "0000:03:02.0 … 0000:03:02.5", func(s *Snapshot) { s.Pods[0].Interfaces[2].Requested = &Requested{DeviceID: "0000:03:02.0"} }, otherDevice},
	{DeviceOther, "0000:03:02.0 … 0000:03:02.5", nil, otherDevice},
	{VariableLost, "NCCL_SOCKET_IFNAME … container du", nil, func(s *Snapshot) { s.Pods[0].Observed.Env = s.Pods[0].Observed.Env[1:] }},
	{VariableLost, "PCIDEVICE_INTEL_COM_SRIOV", notObserved, func(s *Snapshot) { notObserved(s); s.Pods[0].Env = nil }},
	{VariableOther, "0000:03:02.0 … 0000:03:02.5", nil, func(s *Snapshot) {
		s.Pods[0].Observed.Env[1].Value, s.Pods[0].Observed.Env[2].Value = "0000:03:02.5", `{"0000:03:02.5": {}}`
	}},
	{VariableCount, "0000:03:02.0 … 0000:03:02.0,0000:03:02.1", nil, func(s *Snapshot) { s.Pods[0].Observed.Env[1].Value += ",0000:03:02.1" }},
	{VariableCount, " 1 … 0", nil, func(s *Snapshot) { s.Pods[0].Observed.Env[2].Value = "{}" }},
	{VariableValue, "f1 … eth0", nil, func(s *Snapshot) { s.Pods[0].Observed.Env[0].Value = "eth0" }},
	{FunctionOther, "vlan 6, spoof check false, trust false, link auto … driver iavf, vlan 0", nil, func(s *Snapshot) { s.Pods[0].Observed.VFs[0].VLAN = 0 }},
	{FunctionOther, "driver iavf", func(s *Snapshot) { s.Pods[0].Observed.VFs[0].PCI = "0000:09:00.1" }, func(s *Snapshot) {
		s.Pods[0].Observed.VFs[0].PCI, s.Pods[0].Observed.VFs[0].Driver = "0000:09:00.2", "vfio-pci"
	}},

	{LinkMissing, "net2 (device)", nil, func(s *Snapshot) {
		interfaces := s.Pods[0].Interfaces
		withoutVF(s)
		s.Pods[0].Interfaces = interfaces
	}},
	{LinkKind, "f1 … macvlan … ipvlan", nil, func(s *Snapshot) { s.Pods[0].Observed.Links[1].Kind = "ipvlan" }},
	{LinkKind, "VLAN … f1 … 0 … 7", nil, func(s *Snapshot) { s.Pods[0].Observed.Links[1].VLAN = 7 }},
	{LinkDown, "f1 … up … down", nil, func(s *Snapshot) { s.Pods[0].Observed.Links[1].Up = false }},
	{LinkDown, "carrier", nil, func(s *Snapshot) { s.Pods[0].Observed.Links[1].Running = false }},
	{LinkFlags, "f1 … false … true", nil, func(s *Snapshot) { s.Pods[0].Observed.Links[1].Promiscuous = true }},
	{HostSide, "eth0 … veth1 … veth2", nil, func(s *Snapshot) { s.Pods[0].Observed.Links[0].Lower = "veth2" }},
	{HostBelow, "f1 … eth1 … eth9", nil, func(s *Snapshot) { s.Pods[0].Observed.Links[1].Lower = "eth9" }},
	{HostBelow, "eth0 … cni0 … br0", nil, func(s *Snapshot) { s.Pods[0].Observed.Links[0].LowerMaster = "br0" }},
	{PrefixOther, "/24,/64 … /16,/64", nil, func(s *Snapshot) { s.Pods[0].Observed.Links[1].Addresses[0] = "10.3.0.7/16" }},

	{DefaultRoute, "f1 via 10.3.0.1", nil, func(s *Snapshot) {
		s.Pods[0].Interfaces[1].Gateways = []string{"10.3.0.1"}
	}},
	{DefaultRoute, "default", nil, func(s *Snapshot) { s.Pods[0].Observed.Routes = s.Pods[0].Observed.Routes[1:] }},
	{DefaultStatus, "10.3.0.1", func(s *Snapshot) { s.Pods[0].Interfaces[1].Requested.DefaultRoute = &[]string{"10.3.0.1"} }, func(s *Snapshot) {
		s.Pods[0].Interfaces[0].Gateways, s.Pods[0].Interfaces[1].Gateways = nil, []string{"10.3.0.1"}
		s.Pods[0].Interfaces[1].Requested.DefaultRoute = &[]string{"10.3.0.1"}
	}},
	{RouteMissing, "10.50.0.0/16 via 10.3.0.1 dev f1 ", nil, func(s *Snapshot) { s.Pods[0].Observed.Routes = slices.Delete(s.Pods[0].Observed.Routes, 2, 3) }},
	{RouteMissing, "default via 10.6.0.1 dev net2 table 100", nil, func(s *Snapshot) { s.Pods[0].Observed.Routes = s.Pods[0].Observed.Routes[:3] }},
	{RouteAdded, "blackhole 10.60.0.0/16 metric 5", nil, func(s *Snapshot) {
		s.Pods[0].Observed.Routes = append(s.Pods[0].Observed.Routes, probe.Route{Table: 254, To: "10.60.0.0/16", Type: "blackhole", Metric: 5})
	}},
	{RuleMissing, "32765: … net2 table 100", nil, func(s *Snapshot) { s.Pods[0].Observed.Rules = s.Pods[0].Observed.Rules[:3] }},
	{RuleAdded, "5: not from all to 10.0.0.0/8 oif f1 fwmark 0x1/0xff table 7 (IPv6)", nil, func(s *Snapshot) {
		s.Pods[0].Observed.Rules = append(s.Pods[0].Observed.Rules, probe.Rule{Priority: 5, Not: true, To: "10.0.0.0/8", Out: "f1", Mark: 1, Mask: 255, Table: 7, IPv6: true})
	}},
	{SysctlTuned, "ipv4.arp_filter … f1 … 1 … 0", nil, func(s *Snapshot) { s.Pods[0].Observed.Links[1].Sysctls["ipv4.arp_filter"] = "0" }},
	{SysctlOther, "net.core.somaxconn … 4096 … 128", func(s *Snapshot) { s.Networks[0].Plugins = nil }, func(s *Snapshot) {
		s.Networks[0].Plugins, s.Pods[0].Observed.Sysctls["net.core.somaxconn"] = nil, "128"
	}},

	{NADMissing, "", nil, func(s *Snapshot) { s.Networks[0].Missing = true }},
	{NADOther, "", nil, func(s *Snapshot) { s.Networks[0].Digest = "d9" }},
	{NADOther, `"intel.com/sriov" … ""`, nil, func(s *Snapshot) { s.Networks[1].Pool = "" }},
}

func notObserved(s *Snapshot) { s.Nodes, s.Pods[0].Observed = nil, nil }

// withoutVF removes net2 with its routes and rules.
func withoutVF(s *Snapshot) {
	p := &s.Pods[0]
	p.Interfaces, p.Observed.Links, p.Observed.Routes, p.Observed.Rules = p.Interfaces[:2], p.Observed.Links[:2], p.Observed.Routes[:3], p.Observed.Rules[:3]
}

// otherDevice gives net2 another virtual function that is set the same.
func otherDevice(s *Snapshot) {
	s.Pods[0].Interfaces[2].Device.PCI, s.Pods[0].Observed.Links[2].PCI, s.Pods[0].Observed.VFs[0].PCI = "0000:03:02.5", "0000:03:02.5", "0000:03:02.5"
}

// inOrder reports whether a message has the parts of a text, which " … " separates, in their order.
func inOrder(message, parts string) bool {
	for p := range strings.SplitSeq(parts, " … ") {
		_, after, found := strings.Cut(message, p)
		if !found {
			return false
		}
		message = after
	}
	return true
}

func compared(t *testing.T, was, now *Snapshot, o Options) *Report {
	t.Helper()
	r, err := Compare(was, now, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCompare(t *testing.T) {
	for _, test := range changes {
		t.Run(string(test.code)+" "+test.says, func(t *testing.T) {
			was, now := sample(), copyOf(t, sample())
			if test.was != nil {
				test.was(was)
			}
			if test.now != nil {
				test.now(now)
			}
			r := compared(t, was, now, Options{})
			found := false
			for _, d := range r.Differences {
				rule, _ := RuleOf(test.code)
				switch {
				case d.Code == test.code && inOrder(d.Message, test.says):
					found = true
					if d.Severity != rule.Severity || d.Title != rule.Title {
						t.Errorf("%s is a %s, want %s", d.Code, d.Severity, rule.Severity)
					}
				case d.Code != test.code && d.Severity != translate.Info:
					t.Errorf("unexpected difference %s: %s", d.Code, d.Message)
				}
			}
			if !found {
				t.Errorf("the difference is missing; found %+v", r.Differences)
			}
		})
	}
}

// Every code has a test.
func TestAllCodesAreTested(t *testing.T) {
	for _, r := range rules {
		if !slices.ContainsFunc(changes, func(c struct {
			code Code
			says string
			was  func(*Snapshot)
			now  func(*Snapshot)
		},
		) bool {
			return c.code == r.Code
		}) {
			t.Errorf("%s has no test", r.Code)
		}
	}
}

// A snapshot has no difference from itself.
func TestCompareTheSame(t *testing.T) {
	r := compared(t, sample(), copyOf(t, sample()), Options{})
	if len(r.Differences) != 0 || r.Summary.Pods != 2 || r.Summary.Interfaces != 3 {
		t.Errorf("report %+v", r)
	}
}

// A pod that was recreated as a move does has expected differences only.
func TestCompareRecreated(t *testing.T) {
	now := copyOf(t, sample())
	p := &now.Pods[0]
	p.UID, p.Node = "u9", "n2"
	now.Nodes = append(now.Nodes, Node{Name: "n2"})
	for i := range p.Interfaces {
		p.Interfaces[i].By = Nadra
	}
	p.Interfaces[0] = Interface{Network: "cbr0", Name: "eth0", Default: true, IPs: []string{"10.98.2.9"}, MAC: "0a:00:00:00:00:09", Gateways: []string{"10.98.2.1"}}
	p.Interfaces[2].IPs, p.Interfaces[2].MAC = []string{"10.6.0.12"}, "1e:00:00:00:00:02"
	otherDevice(now)
	p.Observed.Links[0].Lower, p.Observed.Links[0].Addresses = "veth9", []string{"10.98.2.9/24"}
	p.Observed.Links[2].Addresses = []string{"10.6.0.12/24"}
	p.Observed.Routes[0].Via = "10.98.2.1"
	p.Observed.Rules[3].From = "10.6.0.12/32"
	p.Observed.Env[1].Value, p.Observed.Env[2].Value = "0000:03:02.5", `{"0000:03:02.5": {}}`
	p.Env[0].Value = "0000:03:02.5"
	r := compared(t, sample(), now, Options{})
	if r.Summary.Findings.Blocker+r.Summary.Findings.Warning > 0 || r.Summary.Findings.Info == 0 {
		t.Errorf("summary %+v", r.Summary)
	}
	for _, d := range r.Differences {
		t.Logf("%s %s", d.Code, d.Message)
		if d.Severity != translate.Info {
			t.Errorf("%s: %s", d.Code, d.Message)
		}
	}
}

func TestCompareOptions(t *testing.T) {
	now := copyOf(t, sample())
	now.Pods[0].UID, now.Pods[0].HostNetwork = "u9", true
	r := compared(t, sample(), now, Options{Ignore: []Code{PodRecreated}})
	if r.Summary.Ignored != 1 || r.Summary.Findings != (translate.Counts{Blocker: 1}) || len(r.Differences) != 1 {
		t.Errorf("ignoring one: %+v", r.Summary)
	}
	if r := compared(t, sample(), now, Options{Nodes: []string{"n7"}}); r.Summary.Pods != 0 || len(r.Differences) != 0 {
		t.Errorf("of another node: %+v", r.Summary)
	}
	now.Pods[1].Node = "n7" // where it is now counts, too
	if r := compared(t, sample(), now, Options{Nodes: []string{"n7"}}); r.Summary.Pods != 1 || r.Workloads[0].Name != "check" {
		t.Errorf("of the node now: %+v", r.Summary)
	}
	if r := compared(t, sample(), now, Options{Namespace: "shop"}); r.Summary.Pods != 0 || len(r.Differences) != 0 {
		t.Errorf("of another namespace: %+v, %+v", r.Summary, r.Differences)
	}
	now.Namespace = "ran"
	if r := compared(t, sample(), now, Options{}); r.Summary.Missing != 0 {
		t.Errorf("of one namespace: %+v", r.Summary)
	}
	if _, err := Compare(sample(), now, Options{Namespace: "shop"}); err == nil || !inOrder(err.Error(), "ran … shop") {
		t.Errorf("the error is %v", err)
	}
	now.Selector = "app=x"
	if _, err := Compare(sample(), now, Options{}); err == nil || !strings.Contains(err.Error(), `selects pods by ""`) {
		t.Errorf("the error is %v", err)
	}
}

func TestWorkloadResults(t *testing.T) {
	now := copyOf(t, sample())
	now.Pods[0].HostNetwork, now.Pods[0].UID = true, "u9"
	r := compared(t, sample(), now, Options{})
	want := WorkloadResult{Namespace: "ran", Workload: Workload{"StatefulSet", "du"}, Pods: 1, Findings: translate.Counts{Blocker: 1, Info: 1}}
	if len(r.Workloads) != 2 || r.Workloads[1] != want {
		t.Errorf("workloads %+v", r.Workloads)
	}
}

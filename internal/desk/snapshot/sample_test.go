package snapshot

import (
	"testing"

	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/desk/document"
	"github.com/nadra-dev/nadra/internal/probe"
)

// sample returns a snapshot with a StatefulSet's pod, which has everything that a snapshot
// records, and a Job's.
func sample() *Snapshot {
	return &Snapshot{
		APIVersion: APIVersion, Kind: Kind, Source: "cluster lab", Nodes: []Node{{Name: "n1"}},
		Pods: []Pod{
			{
				Namespace: "ran", Name: "du-0", UID: "u1", Node: "n1", Workload: &Workload{"StatefulSet", "du"}, Ordinal: ptr.To(0),
				Interfaces: []Interface{
					{Network: "cbr0", Name: "eth0", Default: true, IPs: []string{"10.98.1.4"}, MAC: "0a:00:00:00:00:01", Gateways: []string{"10.98.1.1"}},
					{
						Network: "ran/f1", Name: "f1", By: Multus, IPs: []string{"10.3.0.7", "fd03::7"}, MAC: "02:00:00:00:00:07", MTU: 9000,
						DNS:       &DNS{Nameservers: []string{"10.3.0.1"}},
						Requested: &Requested{Interface: "f1", IPs: []string{"10.3.0.7/24"}, MAC: "02:00:00:00:00:07"},
					},
					{
						Network: "ran/vf", Name: "net2", By: Multus, IPs: []string{"10.6.0.10"}, MAC: "1e:00:00:00:00:01",
						Device: &DeviceInfo{Type: "pci", PCI: "0000:03:02.0", RDMA: "mlx5_2"},
					},
				},
				Env: []variable{{Name: "PCIDEVICE_INTEL_COM_SRIOV", Value: "0000:03:02.0"}},
				Observed: &Observed{
					Links: []probe.Link{
						{Name: "eth0", Kind: "veth", MAC: "0a:00:00:00:00:01", MTU: 1450, Up: true, Running: true, Lower: "veth1", OnHost: true, LowerMaster: "cni0", Addresses: []string{"10.98.1.4/24"}},
						{Name: "f1", Kind: "macvlan", Mode: "bridge", MAC: "02:00:00:00:00:07", MTU: 9000, Up: true, Running: true, Lower: "eth1", OnHost: true, Addresses: []string{"10.3.0.7/24", "fd03::7/64", "fe80::1/64"}, Sysctls: map[string]string{"ipv4.arp_filter": "1"}},
						{Name: "net2", Kind: "device", MAC: "1e:00:00:00:00:01", MTU: 1500, Up: true, Running: true, PCI: "0000:03:02.0", Addresses: []string{"10.6.0.10/24"}},
					},
					Routes: []probe.Route{
						{Table: 254, To: "default", Via: "10.98.1.1", Interface: "eth0"},
						{Table: 254, To: "10.3.0.0/24", Interface: "f1", Source: "10.3.0.7", Protocol: "kernel", Scope: "link"},
						{Table: 254, To: "10.50.0.0/16", Via: "10.3.0.1", Interface: "f1", Source: "10.3.0.7", Protocol: "boot"},
						{Table: 100, To: "default", Via: "10.6.0.1", Interface: "net2", Protocol: "boot"},
					},
					Rules: []probe.Rule{
						{Priority: 0, Table: 255},
						{Priority: 32766, Table: 254},
						{Priority: 32767, Table: 253},
						{Priority: 32765, Table: 100, From: "10.6.0.10/32"},
					},
					Sysctls: map[string]string{"net.core.somaxconn": "4096"},
					VFs:     []probe.VF{{PCI: "0000:03:02.0", PF: "eth2", VLAN: 6, Driver: "iavf", LinkState: "auto"}},
					Env: []variable{
						{Container: "du", Name: "NCCL_SOCKET_IFNAME", Value: "f1"},
						{Container: "du", Name: "PCIDEVICE_INTEL_COM_SRIOV", Value: "0000:03:02.0"},
						{Container: "du", Name: "PCIDEVICE_INTEL_COM_SRIOV_INFO", Value: `{"0000:03:02.0": {}}`},
					},
				},
			},
			{Namespace: "ran", Name: "check-1", UID: "u2", Node: "n1", Workload: &Workload{"Job", "check"}, Interfaces: []Interface{{Network: "ran/f1", Name: "net1", By: Multus}}},
		},
		Networks: []Network{
			{Namespace: "ran", Name: "f1", Plugins: []string{"macvlan", "tuning"}, IPAM: []string{"host-local"}, Subnets: []string{"10.3.0.0/24", "fd03::/64"}, Digest: "d1"},
			{Namespace: "ran", Name: "vf", Plugins: []string{"sriov"}, Pool: "intel.com/sriov", Digest: "d2"},
		},
	}
}

// copyOf returns an equal snapshot.
func copyOf(t *testing.T, s *Snapshot) *Snapshot {
	t.Helper()
	text, err := document.JSON(s, "  ")
	if err != nil {
		t.Fatal(err)
	}
	out, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

package inventory

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A card in switchdev mode has everything: representors beside its uplink, a VF
// that is in a pod, a vDPA device, a scalable function.
func TestReadSwitchdev(t *testing.T) {
	got := recorded(t, "mlx5-switchdev.txt").read(Kernel{
		EswitchMode: func(address string) string {
			return map[string]string{"0000:03:00.0": "switchdev"}[address]
		},
		RDMAMode: func() string { return "shared" },
		Links: func() (map[string]Link, error) {
			return map[string]Link{
				"enp3s0f0np0": {AltNames: []string{"uplink0"}},
				"enp3s0f0v1":  {PermanentMAC: "0c:42:a1:00:03:99"},
			}, nil
		},
	})
	pf := &PF{PCIAddress: "0000:03:00.0", Device: "101d", Name: "enp3s0f0np0", AltNames: []string{"uplink0"}, Link: LinkDown}
	common := Function{
		PCIAddress: "0000:03:00.0", Class: 0x020000, Vendor: "15b3", Device: "101d", Driver: "mlx5_core",
		NUMANode: 1, PCIeRoot: "pci0000:00", LinkType: "ether", EswitchMode: "switchdev", RDMACapable: true,
	}
	card := common
	card.ID, card.Kind, card.Index, card.ACPIIndex, card.TotalVFs, card.NumVFs = "0000:03:00.0", KindPF, -1, "7", 4, 2
	card.Netdevs = []Netdev{{Name: "enp3s0f0np0", MAC: "0c:42:a1:00:03:00", AltNames: []string{"uplink0"}, Type: "ether", Up: true, Link: LinkDown}}
	card.RDMA = []RDMA{{Name: "mlx5_0", CharDevices: []string{
		"/dev/infiniband/issm0", "/dev/infiniband/umad0", "/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm",
	}}}
	sf := common
	sf.ID, sf.Kind, sf.PF, sf.Index, sf.Representor = "mlx5_core.sf.4", KindSF, pf, 88, "enp3s0f0npf0sf88"
	sf.Netdevs = []Netdev{{Name: "enp3s0f0s88", MAC: "00:00:00:00:88:88", Type: "ether"}}
	sf.RDMA = []RDMA{{Name: "mlx5_3", CharDevices: []string{"/dev/infiniband/uverbs3", "/dev/infiniband/rdma_cm"}}}
	vf0 := common
	vf0.ID, vf0.PCIAddress, vf0.Kind, vf0.PF, vf0.Device, vf0.Representor = "0000:03:00.2", "0000:03:00.2", KindVF, pf, "101e", "enp3s0f0npf0vf0"
	vf0.RDMA = []RDMA{{Name: "mlx5_2", CharDevices: []string{"/dev/infiniband/uverbs2", "/dev/infiniband/rdma_cm"}}}
	vf1 := common
	vf1.ID, vf1.PCIAddress, vf1.Kind, vf1.PF, vf1.Device, vf1.Index, vf1.RDMACapable = "0000:03:00.3", "0000:03:00.3", KindVF, pf, "101e", 1, false
	vf1.Netdevs = []Netdev{{Name: "enp3s0f0v1", MAC: "0c:42:a1:00:03:99", Type: "ether"}}
	vf1.VDPA = &VDPA{Name: "vdpa0", Driver: "vhost_vdpa", Path: "/dev/vhost-vdpa-0"}
	want := Inventory{RDMAMode: "shared", VhostNet: "/dev/vhost-net", Functions: []Function{card, sf, vf0, vf1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
}

func TestReadUserspace(t *testing.T) {
	tr := newTree(t)
	bound := func(slot int, driver string) string {
		return tr.pci(fmt.Sprintf("pci0000:00/0000:00:%02x.0", slot), "0x020000", "0x8086", "0x154c", driver, -1)
	}
	tr.add(bound(4, "vfio-pci") + "/iommu_group -> /kernel/iommu_groups/17\nsys/kernel/iommu_groups/17/")
	tr.add(bound(5, "vfio-pci") + "/iommu_group -> /kernel/iommu_groups/0\nsys/kernel/iommu_groups/0/name = vfio-noiommu")
	tr.add(bound(6, "igb_uio") + "/uio/uio3/")
	tr.net(bound(7, "virtio-pci")+"/virtio2", "eth0", "52:54:00:00:00:01", "unknown")
	tr.pci("pci0000:00/0000:00:08.0", "0x120000", "0x8086", "0x0d5c", "", 0)
	got := map[string][]string{}
	for _, f := range tr.read(Kernel{}).Functions {
		got[f.ID] = []string{string(f.Kind), f.VFIODevice, f.VFIOContainerDevice, f.UIODevice, f.LinkType, fmt.Sprint(f.NUMANode, f.IsAccelerator())}
	}
	want := map[string][]string{
		"0000:00:04.0": {"nic", "/dev/vfio/17", "/dev/vfio/17", "", "", "-1 false"},
		"0000:00:05.0": {"nic", "/dev/vfio/noiommu-0", "/dev/vfio/0", "", "", "-1 false"},
		"0000:00:06.0": {"nic", "", "", "/dev/uio3", "", "-1 false"},
		"0000:00:07.0": {"nic", "", "", "", "ether", "-1 false"},
		"0000:00:08.0": {"nic", "", "", "", "", "0 true"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
}

// In exclusive mode, the RDMA device of a pod's VF is not on the host.
func TestReadExclusiveRDMA(t *testing.T) {
	tr := manyVFs(t, 1, 4)
	tr.remove("sys/devices/pci0000:0f/0000:0f:00.0/0000:10:00.2/infiniband")
	asked := []string{}
	got := tr.read(Kernel{RDMAMode: func() string { return "exclusive" }, RDMAParam: func(bus, device string) bool {
		asked = append(asked, bus+"/"+device)
		return device == "0000:10:00.2"
	}})
	capable := []string{}
	for _, f := range got.Functions {
		if f.RDMACapable {
			capable = append(capable, f.ID)
		}
	}
	if want := []string{"0000:10:00.2", "0000:10:00.4"}; !slices.Equal(capable, want) {
		t.Errorf("capable of RDMA %v, want %v (asked the kernel of %v)", capable, want, asked)
	}
	if slices.Contains(asked, "pci/0000:10:00.4") {
		t.Error("the kernel was asked of a function whose device is there")
	}
}

// Interfaces that the default route uses are marked, also below a VLAN on a bond.
func TestReadUplink(t *testing.T) {
	tr := newTree(t)
	for i := range 3 {
		tr.net(tr.pci(fmt.Sprintf("pci0000:00/0000:00:0%d.0", i), "0x020000", "0x8086", "0x1521", "igb", 0), fmt.Sprintf("eno%d", i), "", "up")
	}
	tr.add("sys/class/net/bond0.7/lower_bond0/\nsys/class/net/bond0/lower_eno1/\nsys/class/net/bond0/lower_eno2/")
	got := tr.read(Kernel{Links: func() (map[string]Link, error) { return map[string]Link{"bond0.7": {DefaultRoute: true}}, nil }})
	for i, want := range []bool{false, true, true} {
		if got.Functions[i].Uplink != want {
			t.Errorf("eno%d: uplink %v, want %v", i, !want, want)
		}
	}
}

func TestReadLinkState(t *testing.T) {
	tr := manyVFs(t, 3, 1)
	tr.add("sys/class/net/ens1np0/operstate = unknown\nsys/class/net/ens2np0/operstate = lowerlayerdown")
	got := map[string]LinkState{}
	for _, f := range tr.read(Kernel{}).Functions {
		if f.Kind == KindVF {
			got[f.PFName()] = f.PF.Link
		}
	}
	if diff := cmp.Diff(map[string]LinkState{"ens0np0": LinkUp, "ens1np0": LinkUp, "ens2np0": LinkDown}, got); diff != "" {
		t.Errorf("states by PF (-want +got):\n%s", diff)
	}
}

func TestReadFails(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "sys")
	if _, err := (Reader{Sys: missing}).Read(); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("error of a sysfs that is not there: %v", err)
	}
	broken := errors.New("netlink is away")
	if _, err := newHost(t).reader(Kernel{Links: func() (map[string]Link, error) { return nil, broken }}).Read(); !errors.Is(err, broken) {
		t.Errorf("error of netlink: %v", err)
	}
	if got := newHost(t).read(Kernel{}); len(got.Functions) != 0 {
		t.Errorf("functions of a host that has none: %v", got.Functions)
	}
}

func newHost(t testing.TB) tree {
	tr := newTree(t)
	tr.add("sys/bus/")
	return tr
}

// The number of VFs changes while pods have some: what is left is the same.
func TestReadAfterVFCountChanged(t *testing.T) {
	tr := manyVFs(t, 1, 4)
	before := tr.read(Kernel{})
	if again := tr.read(Kernel{}); !cmp.Equal(before, again) {
		t.Errorf("two readings differ:\n%s", cmp.Diff(before, again))
	}
	for _, address := range []string{"0000:10:00.4", "0000:10:00.5"} {
		tr.remove("sys/bus/pci/devices/" + address)
	}
	tr.add("sys/bus/pci/devices/0000:10:00.0/sriov_numvfs = 2")
	after := tr.read(Kernel{})
	want := slices.Clone(before.Functions[:3])
	want[0].NumVFs = 2
	if diff := cmp.Diff(want, after.Functions); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
	if index := after.Functions[2].Index; index != 1 {
		t.Errorf("index %d of the second VF", index)
	}
}

// What a reading costs grows with what there is to read, and no faster. How long
// it takes is BenchmarkReadThousandVFs'.
func TestReadThousandVFs(t *testing.T) {
	allocations := func(cards, each int) float64 {
		reader := manyVFs(t, cards, each).reader(Kernel{})
		return testing.AllocsPerRun(3, func() {
			inventory, err := reader.Read()
			if want := cards * (each + 1); err != nil || len(inventory.Functions) != want {
				t.Fatalf("%d functions, error %v, want %d", len(inventory.Functions), err, want)
			}
		})
	}
	few, many := allocations(1, 125), allocations(8, 125)
	if many > 8.5*few {
		t.Errorf("%.0f allocations for 1,000 VFs, %.0f for an eighth of them", many, few)
	}
}

// A hundred readings leave no more behind than one.
func TestReadKeepsNothing(t *testing.T) {
	reader := manyVFs(t, 2, 50).reader(Kernel{})
	kept := heapOf(reader)
	for range 100 {
		if _, err := reader.Read(); err != nil {
			t.Fatal(err)
		}
	}
	if grown := int64(heapOf(reader)) - int64(kept); grown > 64<<10 {
		t.Errorf("the heap has grown by %d KiB", grown>>10)
	}
}

func heapOf(r Reader) uint64 {
	inventory, _ := r.Read()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	runtime.KeepAlive(inventory)
	return m.HeapAlloc
}

func BenchmarkReadThousandVFs(b *testing.B) {
	reader := manyVFs(b, 8, 125).reader(Kernel{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := reader.Read(); err != nil {
			b.Fatal(err)
		}
	}
}

func TestRemember(t *testing.T) {
	seen := Function{ID: "a", Driver: "ice", LinkType: LinkEther, PKey: "0x8001", RDMACapable: true, Netdevs: []Netdev{{Name: "eno1"}}}
	earlier := Inventory{Functions: []Function{seen}}
	for _, tt := range []struct {
		name      string
		now, want Function
	}{
		{"in a pod", Function{ID: "a", Driver: "ice"}, Function{ID: "a", Driver: "ice", LinkType: LinkEther, PKey: "0x8001", RDMACapable: true}},
		{"with another driver", Function{ID: "a", Driver: "vfio-pci"}, Function{ID: "a", Driver: "vfio-pci"}},
		{"on the host", Function{ID: "a", Driver: "ice", Netdevs: seen.Netdevs}, Function{ID: "a", Driver: "ice", Netdevs: seen.Netdevs}},
		{"new", Function{ID: "b", Driver: "ice"}, Function{ID: "b", Driver: "ice"}},
	} {
		now := Inventory{Functions: []Function{tt.now}}
		now.Remember(earlier)
		if diff := cmp.Diff(tt.want, now.Functions[0]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

package hwdevices

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
	"github.com/nadra-dev/nadra/pkg/inventory"
	"github.com/nadra-dev/nadra/pkg/pools"
)

// rig is a publisher with a host and pools that tests change.
type rig struct {
	*Publisher
	host     inventory.Inventory
	list     []pools.Pool
	problems []error
	inUse    map[string]string
	usedErr  error
	owned    bool
	made     map[string]resourceslice.Pool
	calls    int
	reported []string
}

func newRig(t *testing.T, vfs ...int) *rig {
	t.Helper()
	r := &rig{owned: true}
	for p, n := range vfs {
		r.host.Functions = append(r.host.Functions, card(p, n)...)
	}
	r.host.RDMAMode = inventory.RDMAShared
	r.list = []pools.Pool{{ResourceName: "intel.com/sriov", DeviceType: pools.NetDevice, Selectors: []pools.Selector{{Vendors: []string{"8086"}}}}}
	r.Publisher = New(Options{
		Node: "node-1", Copies: 3,
		Pools: func() ([]pools.Pool, []error) { return r.list, r.problems },
		Read: func() (inventory.Inventory, error) {
			return inventory.Inventory{Functions: slices.Clone(r.host.Functions), RDMAMode: r.host.RDMAMode, VhostNet: "/dev/vhost-net"}, nil
		},
		UsedByPlugins: func(context.Context) (map[string]string, error) { return r.inUse, r.usedErr },
		Owned:         func() bool { return r.owned },
		ProblemChanged: func(_ context.Context, problem string, exists bool) {
			r.reported = append(r.reported, fmt.Sprint(exists, " ", problem))
		},
		Outcome: func(error) {},
	})
	return r
}

// card returns a PF and its VFs.
func card(p, vfs int) []inventory.Function {
	address := fmt.Sprintf("0000:%02x:00.0", 0x10*(p+1))
	pf := &inventory.PF{PCIAddress: address, Device: "158b", Name: fmt.Sprintf("eno%d", p), Link: inventory.LinkUp}
	common := inventory.Function{Class: 0x020000, Vendor: "8086", NUMANode: p, PCIeRoot: fmt.Sprintf("pci0000:%02x", p), LinkType: "ether"}
	own := common
	own.ID, own.PCIAddress, own.Kind, own.Driver, own.Device, own.Index, own.TotalVFs, own.NumVFs = address, address, inventory.KindPF, "i40e", "158b", -1, 256, vfs
	own.Netdevs = []inventory.Netdev{{Name: pf.Name, Up: true, Link: inventory.LinkUp}}
	out := []inventory.Function{own}
	for v := range vfs {
		f := common
		f.ID = fmt.Sprintf("0000:%02x:%02x.%d", 0x10*(p+1)+1+v/256, v%256/8, v%8)
		f.PCIAddress, f.Kind, f.Driver, f.Device, f.Index, f.PF = f.ID, inventory.KindVF, "iavf", "154c", v, pf
		out = append(out, f)
	}
	return out
}

func (r *rig) sync(t *testing.T) {
	t.Helper()
	err := r.Publisher.sync(t.Context(), func(_ context.Context, made slicewriter.PoolMaker) error {
		r.made = made()
		r.calls++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// vf returns a VF of the first card.
func (r *rig) vf(index int) *inventory.Function { return &r.host.Functions[1+index] }

// device returns the published device with this name.
func (r *rig) device(t *testing.T, name string) resourceapi.Device {
	t.Helper()
	for _, pool := range r.made {
		for _, s := range pool.Slices {
			for _, d := range s.Devices {
				if d.Name == name {
					return d
				}
			}
		}
	}
	t.Fatalf("device %s is not published", name)
	return resourceapi.Device{}
}

func (r *rig) has(name string) bool {
	for _, pool := range r.made {
		for _, s := range pool.Slices {
			if slices.ContainsFunc(s.Devices, func(d resourceapi.Device) bool { return d.Name == name }) {
				return true
			}
		}
	}
	return false
}

// changedSlices returns the slices that the library would write.
func changedSlices(before, after map[string]resourceslice.Pool) []string {
	var out []string
	for name := range before {
		a, b := before[name].Slices, after[name].Slices
		for i := range max(len(a), len(b)) {
			if i >= len(a) || i >= len(b) || !resourceslice.DevicesDeepEqual(a[i].Devices, b[i].Devices) {
				out = append(out, fmt.Sprintf("%s[%d]", name, i))
			}
		}
	}
	slices.Sort(out)
	return out
}

// TestFiveHundredVFs checks with two cards that every slice is within the API's limits, and
// that every change of one VF changes one slice.
func TestFiveHundredVFs(t *testing.T) {
	r := newRig(t, 250, 250)
	r.sync(t)
	total, names := 0, map[string]bool{}
	for name, pool := range r.made {
		if problems := validation.IsDNS1123Subdomain(strings.ReplaceAll(name, "/", ".")); len(problems) > 0 {
			t.Errorf("pool %s: %v", name, problems)
		}
		for _, s := range pool.Slices {
			if n := len(s.Devices); n > resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures {
				t.Errorf("%s: %d devices in a slice", name, n)
			}
			for _, d := range s.Devices {
				total++
				names[d.Name] = true
				checkLimits(t, d)
			}
		}
	}
	if total != 500 || len(names) != 500 {
		t.Errorf("%d devices with %d names", total, len(names))
	}
	const first, second = "node-1/pf-0000-10-00-0", "node-1/pf-0000-20-00-0"
	if len(r.made) != 2 || len(r.made[first].Slices) != 4 || len(r.made[second].Slices) != 4 {
		t.Fatalf("pools %v", r.made)
	}
	for _, tt := range []struct {
		name string
		do   func()
		want []string
	}{
		{"a VF is bound to another driver", func() { r.vf(70).Driver = "vfio-pci" }, []string{first + "[1]"}},
		{"a device plugin gives a VF away", func() { r.inUse = map[string]string{r.vf(5).ID: "default/p"} }, []string{first + "[0]"}},
		{"and it is free again", func() { r.inUse = nil }, []string{first + "[0]"}},
		{"a VF's interface goes to a pod and comes back", func() { r.vf(130).Netdevs = []inventory.Netdev{{Name: "eno0v130"}} }, nil},
		{"a VF loses its driver", func() { r.vf(199).Driver = "" }, []string{first + "[3]"}},
		{"the second card gets another number of VFs", func() { r.host.Functions = append(r.host.Functions[:251], card(1, 100)...) }, []string{second + "[1]", second + "[2]", second + "[3]"}},
		{"its link goes down", func() { r.host.Functions[252].PF.Link = inventory.LinkDown }, []string{second + "[0]", second + "[1]"}},
	} {
		before := r.made
		tt.do()
		r.sync(t)
		if diff := cmp.Diff(tt.want, changedSlices(before, r.made)); diff != "" {
			t.Errorf("%s: changed slices (-want +got):\n%s", tt.name, diff)
		}
	}
}

func checkLimits(t *testing.T, d resourceapi.Device) {
	t.Helper()
	if problems := validation.IsDNS1123Label(d.Name); len(problems) > 0 {
		t.Errorf("device %s: %v", d.Name, problems)
	}
	if n := len(d.Attributes) + len(d.Capacity); n > resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		t.Errorf("device %s: %d attributes", d.Name, n)
	}
	for name, a := range d.Attributes {
		_, id, found := strings.Cut(string(name), "/")
		if !found {
			id = string(name)
		}
		if len(id) > resourceapi.DeviceMaxIDLength || a.StringValue != nil && len(*a.StringValue) > resourceapi.DeviceAttributeMaxValueLength {
			t.Errorf("device %s: attribute %s is too long", d.Name, name)
		}
	}
}

func TestHardwareAttributes(t *testing.T) {
	r := newRig(t, 2)
	r.vf(1).RDMACapable = true
	r.vf(1).EswitchMode = "switchdev"
	r.vf(1).VDPA = &inventory.VDPA{Driver: "vhost_vdpa"}
	r.sync(t)
	got := map[string]string{}
	for name, a := range r.device(t, "pci-0000-11-00-1").Attributes {
		switch {
		case a.StringValue != nil:
			got[string(name)] = *a.StringValue
		case a.IntValue != nil:
			got[string(name)] = fmt.Sprint(*a.IntValue)
		case a.BoolValue != nil:
			got[string(name)] = fmt.Sprint(*a.BoolValue)
		}
	}
	want := map[string]string{
		"k8s.cni.cncf.io/resourceName": "intel.com/sriov", "k8s.cni.cncf.io/deviceID": "0000:11:00.1",
		"resource.kubernetes.io/pciBusID": "0000:11:00.1", "resource.kubernetes.io/pcieRoot": "pci0000:00", "resource.kubernetes.io/numaNode": "0", "dra.net/numaNode": "0",
		"kind": "vf", "pfName": "eno0", "pfPCIAddress": "0000:10:00.0", "vfIndex": "1", "vendor": "8086", "deviceCode": "154c",
		"driver": "iavf", "linkType": "ether", "rdma": "true", "rdmaMode": "shared", "vfioBound": "false", "eswitchMode": "switchdev", "vdpa": "vhost_vdpa",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	r.list[0].ExcludeTopology = true
	r.sync(t)
	for name := range r.device(t, "pci-0000-11-00-1").Attributes {
		if strings.HasSuffix(string(name), "numaNode") {
			t.Errorf("%s is published in spite of excludeTopology", name)
		}
	}
}

// TestLinkDown checks that the VFs of a PF without a link are tainted, or withheld if the
// API server knows no taints, and that Prepare still finds them.
func TestLinkDown(t *testing.T) {
	r := newRig(t, 1, 1)
	r.vf(0).PF.Link = inventory.LinkDown
	r.sync(t)
	const tainted, healthy = "pci-0000-11-00-0", "pci-0000-21-00-0"
	want := []resourceapi.DeviceTaint{{Key: "net.nadra.dev/link-down", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	if diff := cmp.Diff(want, r.device(t, tainted).Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
	if taints := r.device(t, healthy).Taints; len(taints) != 0 {
		t.Errorf("taints of the other card's VF: %v", taints)
	}
	r.UseFeatures(slicewriter.Features{SharedDevices: true})
	r.sync(t)
	if r.has(tainted) || !r.has(healthy) {
		t.Errorf("published %v", r.made)
	}
	if _, ok := r.View.Lookup("node-1/pf-0000-10-00-0", tainted); !ok {
		t.Error("Prepare does not know the device")
	}
	r.UseFeatures(slicewriter.AllFeatures)
	r.sync(t)
	if !r.has(tainted) {
		t.Error("after an upgrade of the cluster the device is not published with its taint")
	}
}

// TestSharedHardware checks that a shared pool is one device with all its functions, or
// copies of it.
func TestSharedHardware(t *testing.T) {
	r := newRig(t, 0, 0)
	files := []inventory.RDMA{{Name: "irdma0", CharDevices: []string{"/dev/infiniband/umad0", "/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"}}}
	for i := range r.host.Functions {
		r.host.Functions[i].RDMA, r.host.Functions[i].RDMACapable = files, true
	}
	r.list = []pools.Pool{{ResourceName: "rdma/hca", DeviceType: pools.SharedRDMA, Share: 1000, Selectors: []pools.Selector{{IsRDMA: true}}}}
	r.sync(t)
	name := sharedName("rdma/hca")
	d := r.device(t, name)
	shares := d.Capacity[capShares]
	if d.AllowMultipleAllocations == nil || !*d.AllowMultipleAllocations || shares.Value.Value() != 1000 || shares.RequestPolicy.Default.Value() != 1 {
		t.Errorf("device %+v", d)
	}
	checkLimits(t, d)
	if _, ok := d.Attributes[attrDeviceID]; ok {
		t.Error("a device of several functions has the ID of one")
	}
	r.UseFeatures(slicewriter.Features{Taints: true})
	r.sync(t)
	if n := len(r.made["node-1/functions"].Slices[0].Devices); n != 3 {
		t.Errorf("%d copies", n)
	}
	for _, n := range []string{name, name + "-2"} {
		found, ok := r.View.Lookup("node-1/functions", n)
		if !ok || len(found.Functions) != 2 || found.Pool.ResourceName != "rdma/hca" {
			t.Errorf("lookup of %s: %v %+v", n, ok, found)
		}
	}
}

// TestLookup checks that Prepare finds a device whatever has happened to it.
func TestLookup(t *testing.T) {
	r := newRig(t, 2)
	const pool = "node-1/pf-0000-10-00-0"
	r.inUse = map[string]string{"0000:11:00.1": "default/other"}
	r.sync(t)
	free, ok := r.View.Lookup(pool, "pci-0000-11-00-0")
	if !ok || free.UsedBy != "" || free.Function().ID != "0000:11:00.0" || free.VhostNet != "/dev/vhost-net" {
		t.Errorf("%v %+v", ok, free)
	}
	if used, ok := r.View.Lookup(pool, "pci-0000-11-00-1"); !ok || used.UsedBy != "default/other" || r.has("pci-0000-11-00-1") {
		t.Errorf("a device that a device plugin has given away: %v %+v, published %v", ok, used, r.has("pci-0000-11-00-1"))
	}
	r.usedErr = errors.New("the kubelet is away")
	r.sync(t)
	if r.has("pci-0000-11-00-1") {
		t.Error("a kubelet that does not answer frees a device")
	}
	r.host.Functions = r.host.Functions[:2]
	r.owned = false
	r.sync(t)
	if len(r.made) != 0 {
		t.Errorf("published on a node that is not nadra's: %v", r.made)
	}
	if here, ok := r.View.Lookup(pool, "pci-0000-11-00-0"); !ok || here.Gone {
		t.Errorf("a device on a node that is not nadra's: %v %+v", ok, here)
	}
	if gone, ok := r.View.Lookup(pool, "pci-0000-11-00-1"); !ok || !gone.Gone {
		t.Errorf("a device that is gone: %v %+v", ok, gone)
	}
	if _, ok := r.View.Lookup("node-1/networks", "pci-0000-11-00-0"); ok {
		t.Error("found in another pool")
	}
}

// TestPoolProblems checks that a problem is reported once, and when it is over, and that
// publishing goes on.
func TestPoolProblems(t *testing.T) {
	r := newRig(t, 1)
	r.problems = []error{errors.New("bad pool")}
	r.sync(t)
	r.sync(t)
	r.list = append(r.list, pools.Pool{ResourceName: "intel.com/b", Source: pools.Source{Object: "ConfigMap a/b"}, DeviceType: pools.NetDevice, Selectors: []pools.Selector{{}}})
	r.problems = nil
	r.sync(t)
	if len(r.reported) != 3 || r.reported[0] != "true bad pool" || reason.In(r.reported[1]) != reason.PoolConflict || !strings.Contains(r.reported[1], "ConfigMap a/b: pool intel.com/b ") || r.reported[2] != "false bad pool" {
		t.Errorf("reported %q", r.reported)
	}
	if r.calls != 1 || !r.has("pci-0000-11-00-0") {
		t.Errorf("%d publications: %v", r.calls, r.made)
	}
}

func BenchmarkSlices(b *testing.B) {
	var functions []inventory.Function
	for p := range 4 {
		functions = append(functions, card(p, 125)...)
	}
	host := inventory.Inventory{Functions: functions}
	list := []pools.Pool{{ResourceName: "intel.com/sriov", DeviceType: pools.NetDevice, Selectors: []pools.Selector{{Vendors: []string{"8086"}}}}}
	for b.Loop() {
		assigned, err := pools.Assign(host, list)
		if err != nil {
			b.Fatal(err)
		}
		slicesOf(devicesOf("node-1", host, list, assigned), sliceOptions{})
	}
}

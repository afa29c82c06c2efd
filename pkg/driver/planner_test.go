package driver

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata/fake"
	runtimecdi "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/hwdevices"
	"github.com/nadra-dev/nadra/pkg/inventory"
	"github.com/nadra-dev/nadra/pkg/pools"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// vfPool is the DRA pool of all devices in these tests.
const vfPool = "node-1/functions"

// vfOf returns a function without an interface, so that nothing reads the test's host.
func vfOf(name, address, pool string, change ...func(*hwdevices.Device)) hwdevices.Device {
	d := hwdevices.Device{
		DRAPool: vfPool, Name: name,
		Functions: []inventory.Function{{ID: address, PCIAddress: address, Kind: inventory.KindVF, Driver: "igbvf"}},
		Pool:      pools.Pool{ResourceName: pool, DeviceType: pools.NetDevice},
	}
	for _, c := range change {
		c(&d)
	}
	return d
}

func drawing(pool string, nad *nadv1.NetworkAttachmentDefinition) *nadv1.NetworkAttachmentDefinition {
	nad.Annotations = map[string]string{attachment.ResourceNameAnnotation: pool}
	return nad
}

// withDevices replaces the claim's results, in their order, by devices of node-1/functions.
func withDevices(c *resourceapi.ResourceClaim, devices ...string) *resourceapi.ResourceClaim {
	for i, device := range devices {
		c.Status.Allocation.Devices.Results[i].Pool = vfPool
		c.Status.Allocation.Devices.Results[i].Device = device
	}
	return c
}

// hardwareDriver returns a driver with two networks of pool intel.com/sriov, one of another, and
// five devices.
func hardwareDriver(t *testing.T) *Driver {
	t.Helper()
	return hardwareDriverWith(t, setup{})
}

func hardwareDriverWith(t *testing.T, s setup) *Driver {
	t.Helper()
	d := newDriverWith(t, s, drawing("intel.com/sriov", nad("vf", drivertest.VFConf)), drawing("intel.com/sriov", nad("vf2", drivertest.VFConf)),
		drawing("mellanox.com/rdma", nad("rdma", `{"cniVersion":"1.0.0","plugins":[{"type":"sriov"},{"type":"rdma"}]}`)), nad("blue", blueConf))
	files := func(d *hwdevices.Device) {
		d.Functions[0].VFIODevice = "/dev/vfio/7"
		d.Selector.NeedVhostNet = true
		d.VhostNet = "/dev/vhost-net"
		d.Pool.AdditionalInfo = map[string]map[string]string{"*": {"zone": "a"}, "0000:01:10.2": {"zone": "b"}}
	}
	rdma := func(d *hwdevices.Device) {
		d.Selector.IsRDMA = true
		d.RDMAMode = inventory.RDMAExclusive
		d.Functions[0].RDMA = []inventory.RDMA{{Name: "mlx5_3", CharDevices: []string{"/dev/infiniband/uverbs3", "/dev/infiniband/rdma_cm"}}}
	}
	d.hardware.View.Set([]hwdevices.Device{
		vfOf("a", "0000:01:10.0", "intel.com/sriov"),
		vfOf("b", "0000:01:10.2", "intel.com/sriov", files),
		vfOf("used", "0000:01:10.4", "intel.com/sriov", func(d *hwdevices.Device) { d.UsedBy = "default/other" }),
		vfOf("r", "0000:02:00.1", "mellanox.com/rdma", rdma),
		vfOf("shared", "0000:02:00.2", "mellanox.com/rdma", rdma, func(d *hwdevices.Device) { d.RDMAMode = inventory.RDMAShared }),
	}, 1)
	return d
}

// TestPrepareBindsDevices checks that each network gets its device in every plugin of its chain,
// and that containers get what the device plugin would have given them.
func TestPrepareBindsDevices(t *testing.T) {
	d := hardwareDriver(t)
	c := configure(configure(withDevices(claim("c", "", "", ""), "b", "a", "r"), "req0", `"network":{"name":"vf"}`), "req2", `"network":{"name":"rdma"}`)
	if err := prepare(t, d, c)["c-uid"].Err; err != nil {
		t.Fatal(err)
	}
	records := d.store.ForClaim("c-uid")
	var got []string
	for _, r := range records {
		what := r.Hardware.ID + " " + r.Attachment.Network.Name
		var list struct {
			Plugins []struct{ Type, DeviceID, PCIBusID string }
		}
		if !r.DeviceOnly {
			if err := json.Unmarshal(r.Attachment.Conflist, &list); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range list.Plugins {
			what += " " + p.Type + "=" + p.DeviceID + "/" + p.PCIBusID
		}
		got = append(got, what)
	}
	want := []string{
		"0000:01:10.2 vf sriov=0000:01:10.2/0000:01:10.2 tuning=0000:01:10.2/0000:01:10.2",
		"0000:02:00.1 rdma sriov=0000:02:00.1/0000:02:00.1 rdma=0000:02:00.1/0000:02:00.1",
		"0000:01:10.0 ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	device := readCDI(t, d, "net.nadra.dev/gate=c-uid.0")
	wantEnv := []string{
		"PCIDEVICE_INTEL_COM_SRIOV=0000:01:10.2,0000:01:10.0",
		`PCIDEVICE_INTEL_COM_SRIOV_INFO={"0000:01:10.0":{"generic":{"deviceID":"0000:01:10.0"}},"0000:01:10.2":{"extra":{"zone":"b"},` +
			`"generic":{"deviceID":"0000:01:10.2"},"vfio":{"dev-mount":"/dev/vfio/7","mount":"/dev/vfio/vfio"},"vhost":{"net-mount":"/dev/vhost-net","tun-mount":"/dev/net/tun"}}}`,
		"PCIDEVICE_MELLANOX_COM_RDMA=0000:02:00.1",
		`PCIDEVICE_MELLANOX_COM_RDMA_INFO={"0000:02:00.1":{"generic":{"deviceID":"0000:02:00.1"},"rdma":{"rdma_cm":"/dev/infiniband/rdma_cm","rdma_dev":"mlx5_3","uverbs":"/dev/infiniband/uverbs3"}}}`,
	}
	if diff := cmp.Diff(wantEnv, device.Env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if got, want := device.files, "/dev/vfio/vfio /dev/vfio/7 /dev/vhost-net /dev/net/tun"; got != want {
		t.Errorf("files %q, want %q", got, want)
	}
	if got, want := readCDI(t, d, "net.nadra.dev/gate=c-uid.1").files, "/dev/infiniband/uverbs3 /dev/infiniband/rdma_cm"; got != want {
		t.Errorf("RDMA files %q, want %q", got, want)
	}
	if got := prepare(t, d, c)["c-uid"].Devices[0].CDIDeviceIDs; !slices.Equal(got, []string{"net.nadra.dev/gate=c-uid.0"}) {
		t.Errorf("CDI devices for the kubelet: %v", got)
	}
}

type edits struct {
	Env   []string
	files string
}

func readCDI(t *testing.T, d *Driver, name string) edits {
	t.Helper()
	cache, err := runtimecdi.NewCache(runtimecdi.WithSpecDirs(d.cdi.SpecDir))
	if err != nil {
		t.Fatal(err)
	}
	device := cache.GetDevice(name)
	if device == nil {
		t.Fatalf("there is no CDI device %s, only %v", name, cache.ListDevices())
	}
	var files []string
	for _, n := range device.ContainerEdits.DeviceNodes {
		files = append(files, n.Path)
	}
	return edits{device.ContainerEdits.Env, strings.Join(files, " ")}
}

func TestPrepareRefusesHardware(t *testing.T) {
	for _, tt := range []struct {
		name  string
		claim *resourceapi.ResourceClaim
		code  reason.Code
		want  []string
	}{
		{"the device is gone", configure(withDevices(claim("c", ""), "x"), "req0", `"network":{"name":"vf"}`), reason.DeviceGone, []string{"request req0", "device x of pool node-1/functions "}},
		{"another has it", configure(withDevices(claim("c", ""), "used"), "req0", `"network":{"name":"vf"}`), reason.PoolConflict, []string{"device used", "default/other", "intel.com/sriov"}},
		{"another pool's network", configure(withDevices(claim("c", ""), "a"), "req0", `"network":{"name":"rdma"}`), reason.DeviceMismatch, []string{"default/rdma", "mellanox.com/rdma", "0000:01:10.0 of intel.com/sriov"}},
		{"a network of no pool", configure(withDevices(claim("c", ""), "a"), "req0", `"network":{"name":"blue"}`), reason.DeviceMismatch, []string{"default/blue"}},
		{"a network device for a network with a pool", claim("c", "vf"), reason.DeviceMismatch, []string{"default/vf", "intel.com/sriov"}},
		{"a setting without a network", configure(withDevices(claim("c", ""), "a"), "req0", `"mac":"02:00:00:00:00:01"`), reason.ClaimInvalid, []string{"claim default/c", "request req0"}},
		{"RDMA mode", configure(withDevices(claim("c", ""), "shared"), "req0", `"network":{"name":"rdma"}`), reason.DeviceUnsuitable, []string{"default/rdma", "rdma system set netns exclusive"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := hardwareDriver(t)
			drivertest.WantReason(t, prepare(t, d, tt.claim)["c-uid"].Err, tt.code, tt.want...)
			if left := d.store.All(); len(left) > 0 {
				t.Errorf("recorded: %v", left)
			}
		})
	}
}

// TestPreparePairsExtendedResources checks that the devices which a pod requests as extended
// resources go to the networks of its annotation, in their order, and that the rest is only for
// the containers.
func TestPreparePairsExtendedResources(t *testing.T) {
	for _, tt := range []struct {
		name, networks string
		devices        []string
		want           []string
		code           reason.Code
		says           []string
	}{
		{"in order", "vf2,vf@data", []string{"a", "b"}, []string{"0000:01:10.0 vf2 net1", "0000:01:10.2 vf data"}, "", nil},
		{"two pools and one more", "rdma,vf", []string{"a", "r", "b"}, []string{"0000:02:00.1 rdma net1", "0000:01:10.0 vf net2", "0000:01:10.2  "}, "", nil},
		{"no annotation", "", []string{"a"}, []string{"0000:01:10.0  "}, "", nil},
		{"too few", "vf,vf2", []string{"a"}, nil, reason.DeviceMismatch, []string{"network default/vf2 ", "intel.com/sriov"}},
		{"a network that no resource brings", "vf,blue", []string{"a"}, nil, reason.AnnotationInvalid, []string{"network default/blue"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := hardwareDriverWith(t, setup{clients: hasAnnotation(t, tt.networks)})
			c := withDevices(claim("c", make([]string, len(tt.devices))...), tt.devices...)
			c.Annotations = map[string]string{extendedClaim: "true"}
			err := prepare(t, d, c)["c-uid"].Err
			if tt.code == "" && err != nil {
				t.Fatal(err)
			}
			drivertest.WantReason(t, err, tt.code, tt.says...)
			var got []string
			for _, r := range slices.SortedFunc(slices.Values(d.store.All()), func(a, b checkpoint.Record) int { return a.Index - b.Index }) {
				got = append(got, r.Hardware.ID+" "+r.Attachment.Network.Name+" "+r.Attachment.Interface)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
		})
	}
}

// hasAnnotation makes the API server have the tests' pod.
func hasAnnotation(t *testing.T, networks string) func(*Clients) {
	t.Helper()
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := fake.NewSimpleMetadataClient(scheme, &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-uid", Annotations: map[string]string{attachment.NetworksAnnotation: networks}},
	})
	return func(c *Clients) { c.Metadata = client }
}

// TestExtendedResourcesAreTheContainers checks that the environment of a container with an
// extended resource lists its own devices.
func TestExtendedResourcesAreTheContainers(t *testing.T) {
	d := hardwareDriverWith(t, setup{clients: hasAnnotation(t, "")})
	c := withDevices(claim("c", "", ""), "a", "b")
	c.Annotations = map[string]string{extendedClaim: "true"}
	if err := prepare(t, d, c)["c-uid"].Err; err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"c-uid.0": "0000:01:10.0", "c-uid.1": "0000:01:10.2"} {
		if got := readCDI(t, d, "net.nadra.dev/gate="+name).Env[0]; got != "PCIDEVICE_INTEL_COM_SRIOV="+want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestDeviceFilesAfterAReboot checks that a pod gets the files that its device has in this boot of the node: the kernel
// may have given those of an earlier boot to another device. Within a boot the files stay.
func TestDeviceFilesAfterAReboot(t *testing.T) {
	state, cdiDir, gate := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "gate")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	files := func(d *Driver, uverbs string) {
		d.hardware.View.Set([]hwdevices.Device{vfOf("r", "0000:02:00.1", "mellanox.com/rdma", func(d *hwdevices.Device) {
			d.Selector.IsRDMA = true
			d.Functions[0].RDMA = []inventory.RDMA{{Name: "mlx5", CharDevices: []string{uverbs}}}
		})}, 1)
	}
	boot := func(id, uverbs string) *Driver {
		t.Helper()
		store, _, err := drivertest.OpenStore(state, id)
		if err != nil {
			t.Fatal(err)
		}
		d := hardwareDriverWith(t, setup{cfg: func(c *Config) { c.CDIDir, c.GateBinary, c.KubeletRegistryDir = cdiDir, gate, t.TempDir() }, env: func(e *environment) { e.store = store }})
		files(d, uverbs)
		if err := d.begin(t.Context(), func(func() error) {}); err != nil {
			t.Fatal(err)
		}
		return d
	}
	c := withDevices(claim("c", ""), "r")
	device := func(d *Driver) edits {
		t.Helper()
		if err := prepare(t, d, c)["c-uid"].Err; err != nil {
			t.Fatal(err)
		}
		d.store.WaitSynced()
		return readCDI(t, d, "net.nadra.dev/gate=c-uid.0")
	}
	specs := func() int {
		found, _ := filepath.Glob(filepath.Join(cdiDir, "*.json"))
		return len(found)
	}

	d := boot("boot-1", "/dev/infiniband/uverbs2")
	drivertest.Same(t, "file", "/dev/infiniband/uverbs2", device(d).files)
	files(d, "/dev/infiniband/uverbs9")
	drivertest.Same(t, "file in the same boot", "/dev/infiniband/uverbs2", device(d).files)
	boot("boot-1", "/dev/infiniband/uverbs2")
	drivertest.Same(t, "specifications after a restart of the driver", 1, specs())

	d = boot("boot-2", "/dev/infiniband/uverbs5")
	drivertest.Same(t, "specifications after a reboot", 0, specs())
	now := device(d)
	drivertest.Same(t, "file after a reboot", "/dev/infiniband/uverbs5", now.files)
	if info := strings.Join(now.Env, " "); !strings.Contains(info, "uverbs5") || strings.Contains(info, "uverbs2") {
		t.Errorf("environment after a reboot: %s", info)
	}

	earlier := *d.store.ForClaim("c-uid")[0].Hardware
	earlier.BootID = "" // as of an earlier version
	if err := d.store.SetHardware(d.store.ForClaim("c-uid")[0].Key(), earlier); err != nil {
		t.Fatal(err)
	}
	d.store.WaitSynced()
	d = boot("boot-2", "/dev/infiniband/uverbs7")
	drivertest.Same(t, "specifications of an earlier version", 1, specs())
	drivertest.Same(t, "file with a record of an earlier version", "/dev/infiniband/uverbs7", device(d).files)

	earlier.BootID, earlier.Files = "boot-2", append(earlier.Files, attachment.DeviceFile{Path: "/dev/infiniband/umad2"})
	if err := d.store.SetHardware(d.store.ForClaim("c-uid")[0].Key(), earlier); err != nil {
		t.Fatal(err)
	}
	d.store.WaitSynced()
	d = boot("boot-3", "/dev/infiniband/uverbs7")
	drivertest.WantReason(t, prepare(t, d, c)["c-uid"].Err, reason.DeviceGone) // its driver comes later
	d.hardware.View.Set(nil, 1)
	drivertest.WantReason(t, prepare(t, d, c)["c-uid"].Err, reason.DeviceGone)
	drivertest.Same(t, "specifications without the device", 0, specs())
}

package pools

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

var testMap = Source{Object: "ConfigMap kube-system/sriovdp-config", Field: "data[config.json]"}

// node is a host with a card of four VFs, of which one is bound to vfio-pci and
// one has a vDPA device; a card of InfiniBand; the host's own way out; a scalable
// function and an accelerator.
func node() inventory.Inventory {
	pf := &inventory.PF{PCIAddress: "0000:3b:00.0", Device: "158b", Name: "Eno1", AltNames: []string{"uplink0"}}
	rdma := []inventory.RDMA{{Name: "mlx5_0", CharDevices: []string{"/dev/infiniband/umad0", "/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"}}}
	out := inventory.Inventory{RDMAMode: inventory.RDMAShared}
	add := func(f inventory.Function) {
		f.PCIAddress = f.ID
		if f.Class == 0 {
			f.Class = 0x020000
		}
		if f.Kind == inventory.KindSF {
			f.PCIAddress = "0000:5e:00.0"
		}
		out.Functions = append(out.Functions, f)
	}
	add(inventory.Function{ID: "0000:3b:00.0", Kind: inventory.KindPF, Vendor: "8086", Device: "158b", Driver: "i40e", Index: -1, TotalVFs: 8, NumVFs: 4, LinkType: "ether"})
	for i := range 4 {
		f := inventory.Function{ID: fmt.Sprintf("0000:3b:02.%d", i), Kind: inventory.KindVF, Vendor: "8086", Device: "154c", Driver: "iavf", Index: i, PF: pf, LinkType: "ether", DDPProfile: "GTPv1"}
		switch i {
		case 2:
			f.Driver = "vfio-pci"
		case 3:
			f.VDPA = &inventory.VDPA{Name: "vdpa0", Driver: "vhost_vdpa"}
		}
		add(f)
	}
	add(inventory.Function{
		ID: "0000:5e:00.0", Kind: inventory.KindPF, Vendor: "15b3", Device: "1017", Driver: "mlx5_core", Index: -1, TotalVFs: 8, LinkType: "infiniband",
		PKey: "0x8001", ACPIIndex: "7", RDMA: rdma, RDMACapable: true, Netdevs: []inventory.Netdev{{Name: "ib0"}},
	})
	add(inventory.Function{
		ID: "mlx5_core.sf.4", Kind: inventory.KindSF, Vendor: "15b3", Device: "1017", Driver: "mlx5_core", Index: 88, LinkType: "ether",
		PF: &inventory.PF{PCIAddress: "0000:5e:00.0", Device: "1017", Name: "ib0"}, RDMA: rdma, RDMACapable: true,
	})
	add(inventory.Function{ID: "0000:80:00.0", Kind: inventory.KindNIC, Vendor: "8086", Device: "1521", Driver: "igb", Index: -1, LinkType: "ether", Uplink: true})
	add(inventory.Function{ID: "0000:90:00.0", Kind: inventory.KindNIC, Vendor: "8086", Device: "0d5c", Driver: "vfio-pci", Index: -1, Class: 0x120000})
	add(inventory.Function{ID: "0000:91:00.0", Kind: inventory.KindNIC, Vendor: "8086", Device: "1521", Index: -1})
	return out
}

// Each selector selects what the device plugin's would.
func TestSelectors(t *testing.T) {
	const vfs = "3b:02.0 3b:02.1 3b:02.2 3b:02.3"
	for _, tt := range []struct{ entry, want string }{
		{`"selectors": {}`, vfs + " 5e:00.0"}, // all but: no driver, the way out, a PF with VFs
		{`"selectors": [{"vendors": ["8086"]}]`, vfs},
		{`"selectors": {"vendors": ["8086", "15b3"], "drivers": ["iavf"]}`, "3b:02.0 3b:02.1 3b:02.3"},
		{`"selectors": {"devices": ["154c"], "drivers": ["vfio-pci"]}`, "3b:02.2"},
		{`"selectors": {"pciAddresses": ["0000:3b:02.1", "0000:80:00.0"]}`, "3b:02.1"},
		{`"selectors": {"pfNames": ["eno1"]}`, vfs}, // in any case
		{`"selectors": {"pfNames": ["eno2", "eno1#0-1,3"]}`, "3b:02.0 3b:02.1 3b:02.3"},
		{`"selectors": {"pfNames": ["uplink0"]}`, ""}, // an alternative name is not the plugin's
		{`"selectors": {"pfNames": ["ib0"]}`, ""},     // a PF has none
		{`"selectors": {"rootDevices": ["0000:3b:00.0#2"]}`, "3b:02.2"},
		{`"selectors": {"linkTypes": ["infiniband"]}`, "5e:00.0"},
		{`"selectors": {"IsRdma": true}`, "5e:00.0"}, // as the operator writes it
		{`"selectors": {"acpiIndexes": ["7"]}`, "5e:00.0"},
		{`"selectors": {"ddpProfiles": ["GTPv1"], "needVhostNet": true}`, vfs},
		{`"selectors": {"pKeys": ["0x8001"]}`, "5e:00.0"},
		{`"selectors": {"vdpaType": "vhost"}`, "3b:02.3"},
		{`"selectors": {"vdpaType": "virtio"}`, ""},
		{`"selectors": [{"drivers": ["vfio-pci"]}, {"pfNames": ["eno1#0"]}]`, "3b:02.0 3b:02.2"},
		{`"deviceType": "accelerator", "selectors": {"vendors": ["8086"]}`, "90:00.0"},
		{`"deviceType": "auxNetDevice", "selectors": {"auxTypes": ["sf"], "pfNames": ["ib0#80-90"], "isRdma": true}`, "mlx5_core.sf.4"},
		{`"deviceType": "auxNetDevice", "selectors": {"auxTypes": ["sf"], "pfNames": ["ib0#1"]}`, ""},
	} {
		t.Run(tt.entry, func(t *testing.T) {
			pools, err := ParseConfig(testMap, []byte(`{"resourceList": [{"resourceName": "a", `+tt.entry+`}]}`), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := held(t, node(), pools); got["intel.com/a"] != tt.want {
				t.Errorf("selected %q, want %q", got["intel.com/a"], tt.want)
			}
		})
	}
}

// held are the functions of each pool, in short.
func held(t *testing.T, host inventory.Inventory, pools []Pool) map[string]string {
	t.Helper()
	assigned, err := Assign(host, pools)
	if err != nil {
		t.Error(err)
	}
	out := map[string]string{}
	for _, a := range assigned {
		name := pools[a.Pool].ResourceName
		out[name] = strings.TrimSpace(out[name] + " " + strings.TrimPrefix(host.Functions[a.Function].ID, "0000:"))
	}
	return out
}

// The RDMA shared device plugin has selectors of its own, and shares a card that
// the host uses.
func TestSharedPools(t *testing.T) {
	for entry, want := range map[string]string{
		`"devices": ["ib0"]`:                                                   "5e:00.0",
		`"selectors": {"ifNames": ["ib0", "x"]}`:                               "5e:00.0",
		`"selectors": {"deviceIDs": ["1018"]}`:                                 "",
		`"selectors": {"vendors": ["8086"]}`:                                   "", // no RDMA
		`"selectors": {"linkTypes": ["infiniband"], "drivers": ["mlx5_core"]}`: "5e:00.0",
	} {
		host := node()
		host.Functions[5].Uplink, host.Functions[5].NumVFs = true, 4
		pools, err := ParseConfig(testMap, []byte(`{"periodicUpdateInterval": 300, "configList": [{"resourceName": "hca", "rdmaHcaMax": 1000, `+entry+`}]}`), Options{})
		if err != nil {
			t.Errorf("%s: %v", entry, err)
			continue
		}
		if got := held(t, host, pools)["rdma/hca"]; got != want || pools[0].Share != 1000 {
			t.Errorf("%s: selected %q of %d shares, want %q", entry, got, pools[0].Share, want)
		}
		host.RDMAMode = inventory.RDMAExclusive
		if assigned, err := Assign(host, pools); len(assigned) != 0 || reason.Of(err) != reason.PoolInvalid || !strings.Contains(err.Error(), "rdma/hca") {
			t.Errorf("%s: in exclusive mode: %v, %v", entry, assigned, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	sriov := func(entry string) string { return `{"resourceList": [` + entry + `]}` }
	rdma := func(entry string) string {
		return `{"configList": [{"resourceName": "hca", "rdmaHcaMax": 2, ` + entry + `}]}`
	}
	for _, tt := range []struct {
		config string
		names  []string // what the error must name
	}{
		{"{\n\"resourceList\": [{\"resourceName\": \"a\",}]}", []string{"data[config.json]", "line 2"}},
		{``, []string{"data[config.json]"}},
		{`null`, []string{"null"}},
		{`{} {}`, []string{"data[config.json]"}},
		{`{"pools": []}`, []string{"resourceList", "configList", "--pool-config"}},
		{`{"resourceList": 3}`, []string{"data[config.json].resourceList", "3"}},
		{`{"resourceList": [], "more": 1}`, []string{"data[config.json].more", "1"}},
		{sriov(`{"resourceName": "a", "selectors": {"numas": ["0"]}}`), []string{"resourceList[0].selectors.numas", `["0"]`}},
		{sriov(`{"resourceName": "a", "selectors": [{}, {"vendors": "8086"}]}`), []string{"resourceList[0].selectors[1].vendors", `"8086"`}},
		{sriov(`{"resourceName": "a", "selectors": [{}, {"isRdma": "yes"}]}`), []string{"selectors[1].isRdma", `"yes"`, "bool"}},
		{sriov(`{"resourceName": "a"}`), []string{"resourceList[0].selectors:"}},
		{sriov(`{"resourceName": "a", "selectors": []}`), []string{"resourceList[0].selectors:"}},
		{sriov(`{"selectors": {}}`), []string{"resourceList[0].resourceName:"}},
		{sriov(`{"resourceName": "a.b", "selectors": {}}`), []string{`"a.b"`, `'.'`}},
		{sriov(`{"resourceName": "a", "resourcePrefix": "not a domain", "selectors": {}}`), []string{"not a domain/a"}},
		{sriov(`{"resourceName": "` + strings.Repeat("a", 60) + `", "selectors": {}}`), []string{"resourceList[0].resourceName", "70 ", "64 "}},
		{sriov(`{"resourceName": "a", "deviceType": "gpu", "selectors": {}}`), []string{"deviceType", `"gpu"`, "netDevice, accelerator and auxNetDevice"}},
		{sriov(`{"resourceName": "a", "deviceType": "accelerator", "selectors": {"pfNames": ["eno1"]}}`), []string{"selectors.pfNames:", `["eno1"]`}},
		{sriov(`{"resourceName": "a", "deviceType": "auxNetDevice", "selectors": {}}`), []string{"auxTypes", `["sf"]`}},
		{sriov(`{"resourceName": "a", "deviceType": "auxNetDevice", "selectors": {"auxTypes": ["sf"], "acpiIndexes": ["1"]}}`), []string{"acpiIndexes"}},
		{sriov(`{"resourceName": "a", "selectors": {"pfNames": ["eno1#3-1"]}}`), []string{"pfNames[0]", `"eno1#3-1"`, `"3-1"`, "first-last"}},
		{sriov(`{"resourceName": "a", "selectors": {"pfNames": ["eno1#a"]}}`), []string{"pfNames[0]", `"a"`, "first-last"}},
		{sriov(`{"resourceName": "a", "selectors": {"rootDevices": ["#1"]}}`), []string{"rootDevices[0]", `"#1"`}},
		{sriov(`{"resourceName": "a", "selectors": {"pfNames": ["eno1#1", "ENO1#3"]}}`), []string{"pfNames[1]", `"ENO1#3"`, "ENO1#0-3,7"}},
		{sriov(`{"resourceName": "a", "selectors": {"vdpaType": "scsi"}}`), []string{"vdpaType", `"scsi"`, "virtio or vhost"}},
		{sriov(`{"resourceName": "a", "selectors": {"vdpaType": "vhost", "isRdma": true}}`), []string{"vdpaType", "isRdma"}},
		{rdma(`"devices": ["ib0"], "selectors": {"vendors": ["15b3"]}`), []string{"configList[0].devices", "ifNames"}},
		{rdma(`"selectors": {}`), []string{"configList[0].selectors:", "devices"}},
		{rdma(`"selectors": {"pfNames": ["ib0"]}`), []string{"selectors.pfNames:", `["ib0"]`}},
		{`{"configList": [{"resourceName": "hca", "devices": ["ib0"]}]}`, []string{"configList[0].rdmaHcaMax"}},
	} {
		pools, err := ParseConfig(testMap, []byte(tt.config), Options{})
		if reason.Of(err) != reason.PoolInvalid {
			t.Errorf("%s: code %q of %v", tt.config, reason.Of(err), err)
			continue
		}
		if len(pools) != 0 {
			t.Errorf("%s: a refused pool is served: %v", tt.config, pools)
		}
		for _, want := range append(tt.names, "ConfigMap kube-system/sriovdp-config: ") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error lacks %q: %v", tt.config, want, err)
			}
		}
	}
}

// One bad pool does not take the others with it.
func TestGoodPoolsBesideABadOne(t *testing.T) {
	pools, err := ParseConfig(testMap, []byte(`{"resourceList": [
		{"resourceName": "good", "resourcePrefix": "example.com", "excludeTopology": true,
		 "additionalInfo": {"*": {"token": "x"}}, "selectors": {"vendors": ["15b3"], "needVhostNet": true}},
		{"resourceName": "bad", "selectors": {"colour": ["red"]}}
	]}`), Options{SRIOVPrefix: "openshift.io"})
	if reason.Of(err) != reason.PoolInvalid || !strings.Contains(err.Error(), "resourceList[1].selectors.colour") {
		t.Errorf("error %v", err)
	}
	want := []Pool{{
		ResourceName: "example.com/good", Source: testMap.item("resourceList", 0), DeviceType: NetDevice, ExcludeTopology: true,
		AdditionalInfo: map[string]map[string]string{"*": {"token": "x"}},
		Selectors:      []Selector{{Vendors: []string{"15b3"}, NeedVhostNet: true}},
	}}
	if diff := cmp.Diff(want, pools); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
}

// If two pools select one VF, the first gets it, and an error names the other.
func TestConflict(t *testing.T) {
	pools, err := ParseConfig(testMap, []byte(`{"resourceList": [
		{"resourceName": "a", "selectors": {"pfNames": ["eno1#0-1"]}},
		{"resourceName": "b", "selectors": [{"pfNames": ["eno1#1-2"]}, {"vendors": ["8086"]}]},
		{"resourceName": "a", "selectors": {}}
	]}`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	pools, err = Unique(pools)
	if len(pools) != 2 || reason.Of(err) != reason.PoolConflict || !strings.Contains(err.Error(), "resourceList[2]") || !strings.Contains(err.Error(), "resourceList[0]") {
		t.Fatalf("%d pools, error %v", len(pools), err)
	}
	assigned, err := Assign(node(), pools)
	want := []Assignment{{Function: 1, Pool: 0}, {Function: 2, Pool: 0}, {Function: 3, Pool: 1}, {Function: 4, Pool: 1, Selector: 1}}
	if diff := cmp.Diff(want, assigned); diff != "" {
		t.Errorf("assignments (-want +got):\n%s", diff)
	}
	if reason.Of(err) != reason.PoolConflict {
		t.Fatalf("code %q of %v", reason.Of(err), err)
	}
	for _, name := range []string{"resourceList[1]", "pool intel.com/b", "0000:3b:02.0", "pool intel.com/a", "resourceList[0]"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error lacks %q: %v", name, err)
		}
	}
}

func policy(name, spec string) string {
	return `{"apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodePolicy",
		"metadata": {"name": "` + name + `", "namespace": "sriov"}, "spec": {"numVfs": 4, "nodeSelector": {"sriov": "yes"}, ` + spec + `}}`
}

func TestPolicies(t *testing.T) {
	labels := map[string]string{"sriov": "yes", "zone": "b"}
	for _, tt := range []struct {
		name string
		list []string
		want map[string]string
	}{
		{"by the PF's name, an alternative one, with a range", []string{policy("p", `"resourceName": "a", "nicSelector": {"pfNames": ["uplink0#0-1"]}`)}, map[string]string{"openshift.io/a": "3b:02.0 3b:02.1"}},
		{"by the PF's number", []string{policy("p", `"resourceName": "a", "nicSelector": {"vendor": "8086", "deviceID": "158b"}, "mtu": 9000, "eSwitchMode": "legacy"`)}, map[string]string{"openshift.io/a": "3b:02.0 3b:02.1 3b:02.2 3b:02.3"}},
		{"vfio-pci", []string{policy("p", `"resourceName": "a", "deviceType": "vfio-pci", "linkType": "ib", "nicSelector": {"rootDevices": ["0000:3b:00.0"]}`)}, map[string]string{"openshift.io/a": "3b:02.2"}},
		{"a PF that is to get VFs", []string{policy("p", `"resourceName": "a", "linkType": "IB", "nicSelector": {"vendor": "15b3"}`)}, map[string]string{}},
		{"the function itself", []string{strings.Replace(policy("p", `"resourceName": "a", "isRdma": true, "nicSelector": {"deviceID": "1017"}`), `"numVfs": 4`, `"numVfs": 0`, 1)}, map[string]string{"openshift.io/a": "5e:00.0"}},
		{"other nodes", []string{policy("p", `"resourceName": "a", "nodeSelector": {"zone": "c"}, "nicSelector": {"vendor": "8086"}`)}, map[string]string{}},
		{"the operator's own", []string{policy("default", `"resourceName": "a", "nicSelector": {"vendor": "8086"}`)}, map[string]string{}},
		{"priority", []string{
			policy("z", `"resourceName": "low", "priority": 1, "nicSelector": {"pfNames": ["eno1#0-3"]}`),
			policy("y", `"resourceName": "high", "priority": 9, "nicSelector": {"pfNames": ["eno1#0-1"]}`),
		}, map[string]string{"openshift.io/high": "3b:02.0 3b:02.1", "openshift.io/low": "3b:02.2 3b:02.3"}},
		{"two for one resource", []string{
			policy("z", `"resourceName": "a", "nicSelector": {"pfNames": ["eno1#0"]}`),
			policy("y", `"resourceName": "a", "nicSelector": {"pfNames": ["eno1#3"]}`),
		}, map[string]string{"openshift.io/a": "3b:02.0 3b:02.3"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var list []Policy
			for _, text := range tt.list {
				p, ok, err := ParsePolicy([]byte(text), "")
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					list = append(list, p)
				}
			}
			pools := FromPolicies(list, labels)
			assigned, _ := Assign(node(), pools) // low and high overlap, as is usual
			got := map[string]string{}
			for _, a := range assigned {
				name := pools[a.Pool].ResourceName
				got[name] = strings.TrimSpace(got[name] + " " + strings.TrimPrefix(node().Functions[a.Function].ID, "0000:"))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("functions by pool (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPolicyRefusals(t *testing.T) {
	for spec, field := range map[string]string{
		`"resourceName": "a", "nicSelector": {"netFilter": "aws/NetworkID:1"}`: "spec.nicSelector.netFilter",
		`"resourceName": "a", "nicSelector": {"speed": 100}`:                   "spec.nicSelector.speed",
		`"resourceName": "a"`: "spec.nicSelector",
		`"nicSelector": {}`:   "spec.resourceName",
		`"resourceName": "a", "nicSelector": {}, "deviceType": "uio"`:                              `spec.deviceType: "uio"`,
		`"resourceName": "a", "nicSelector": {}, "linkType": "token-ring"`:                         `spec.linkType: "token-ring"`,
		`"resourceName": "a", "nicSelector": {}, "firmware": "x"`:                                  "spec.firmware",
		`"resourceName": "a", "nicSelector": {"pfNames": ["a#x"]}`:                                 "spec.nicSelector.pfNames[0]",
		`"resourceName": "a", "nicSelector": {}, "vdpaType": "vhost", "isRdma": true, "mtu": 1500`: "spec.vdpaType",
	} {
		_, ok, err := ParsePolicy([]byte(policy("p", spec)), "example.com")
		if ok || reason.Of(err) != reason.PoolInvalid || !strings.Contains(err.Error(), "SriovNetworkNodePolicy sriov/p: "+field) {
			t.Errorf("%s: ok %v, error %v", spec, ok, err)
		}
	}
}

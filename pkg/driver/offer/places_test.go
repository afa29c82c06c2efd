package offer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/drivertest"
)

const podsOfNode = 110

// defined returns the Definitions of NADs with these configurations.
func defined(t testing.TB, configs map[string]string) []*Definition {
	t.Helper()
	var out []*Definition
	for name, config := range configs {
		nad := drivertest.NAD(name, config)
		if strings.Contains(name, "aligned") {
			nad.Annotations = map[string]string{attachment.AlignAnnotation: "true"}
		}
		d := (&Definitions{}).Of([]*nadv1.NetworkAttachmentDefinition{nad}, nil)[0]
		if d.Err != nil {
			t.Fatal(d.Err)
		}
		out = append(out, d)
	}
	return out
}

// many returns the Definitions of n networks of a bridge.
func many(t testing.TB, n int) []*Definition {
	configs := map[string]string{}
	for i := range n {
		configs[fmt.Sprint("net", i)] = drivertest.RedConf
	}
	return defined(t, configs)
}

// card returns an interface with a PCI function.
func card(name, address string) Link {
	return Link{Name: name, PCI: PCIAttributes{"resource.kubernetes.io/pciBusID": String(address)}}
}

// arranged returns the devices of networks in slices.
func arranged(networks []*Definition, links map[string]Link, pods int64) [][]*device {
	return offered(networks, links, pods, Options{}).devices
}

func offered(networks []*Definition, links map[string]Link, pods int64, options Options) *Offer {
	var first *Offer
	return first.Of(Arrangement{slices.Clone(networks), links, pods}, options)
}

// described returns the slices of an arrangement: of each device its name, the attributes that align it,
// its networks out of those that are known, and its addresses.
func described(made [][]*device, known []*Definition) [][]string {
	names := map[attachment.NetworkID]string{}
	for _, d := range known {
		names[d.ID] = d.Network.Ref.Name
	}
	var out [][]string
	for _, devices := range made {
		var slice []string
		for _, d := range devices {
			text := d.name
			for _, a := range []resourceapi.QualifiedName{attrMaster, "resource.kubernetes.io/pciBusID"} {
				if v, ok := d.attributes[a]; ok {
					text += " " + *v.StringValue
				}
			}
			var networks []string
			for id := range attachment.NetworkIDs(d.attributes) {
				networks = append(networks, names[id])
			}
			slices.Sort(networks)
			text += fmt.Sprint(" ", networks)
			if d.addresses != nil {
				text += fmt.Sprint(" ", *d.addresses)
			}
			slice = append(slice, text)
		}
		out = append(out, slice)
	}
	return out
}

func macvlanOn(master string) string {
	return fmt.Sprintf(`{"cniVersion":"1.0.0","type":"macvlan","master":%q}`, master)
}

// TestArrange checks which networks share a device.
func TestArrange(t *testing.T) {
	const limited = `{"cniVersion":"1.0.0","type":"bridge","ipam":{"type":"host-local","subnet":"10.0.0.0/28"}}`
	networks := defined(t, map[string]string{
		"bridge": drivertest.RedConf, "wide": `{"cniVersion":"1.0.0","type":"bridge","ipam":{"type":"host-local","subnet":"10.0.0.0/24"}}`,
		"aligned-vlan": macvlanOn("ens1.100"), "card": macvlanOn("ens1"), "aligned-card": macvlanOn("ens1"), "aligned-alias": macvlanOn("fabric"), "aligned-second": macvlanOn("ens1-0"),
		"limited": limited, "limited-aligned": strings.Replace(limited, `"type":"bridge"`, `"type":"macvlan","master":"ens1"`, 1),
		"aligned-chain": `{"cniVersion":"1.0.0","plugins":[{"type":"macvlan","master":"ens1"},{"type":"ipvlan","master":"ens1-0"}]}`,
	})
	ens1, second := card("ens1", "0000:01:00.0"), card("ens1-0", "0000:02:00.0")
	links := map[string]Link{"ens1": ens1, "fabric": ens1, "ens1-0": second, "ens1.100": {Name: "ens1.100"}}
	got := described(arranged(networks, links, podsOfNode), networks)
	want := [][]string{
		{"ens1-0-0 ens1 0000:01:00.0 [aligned-alias aligned-card]", "ens1-0-xdb80101d-0-0 ens1-0 0000:02:00.0 [aligned-second]", "ens1-ens1-0-x763d0f61-0-0 ens1 0000:02:00.0 [aligned-chain]"},
		{"node-0-0 [aligned-vlan bridge card wide]"},
		{"default-limited-aligned-f266af0a9d ens1 0000:01:00.0 [limited-aligned] 13", "default-limited-eb937ad1c8 [limited] 13"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
	want = [][]string{{"default-limited-eb937ad1c8 [limited] 13", "default-wide-9f28af99ab [wide] 253"}}
	few := slices.DeleteFunc(slices.Clone(networks), func(d *Definition) bool { return d.Network.Ref.Name != "wide" && d.Network.Ref.Name != "limited" })
	got = described(arranged(few, links, 300), networks)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("one slice, on a node of 300 pods (-want +got):\n%s", diff)
	}
}

// TestArrangeMany checks that devices and slices keep the API's limits, that each network is listed once, and
// that the number of devices stays small.
func TestArrangeMany(t *testing.T) {
	for n, limit := range map[int]int{0: 0, 1: 1, 100: 2, 200: 4, 1000: 18, 10_000: 160} {
		networks := many(t, n)
		pool := offered(networks, nil, podsOfNode, Options{}).Slices()
		seen, names := map[attachment.NetworkID]int{}, map[string]bool{}
		for _, devices := range pool {
			if size := (&resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Devices: devices}}).Size(); size > 7<<10 {
				t.Errorf("%d networks: a slice of %d bytes", n, size)
			}
			for _, d := range devices {
				if names[d.Name] || len(validation.IsDNS1123Label(d.Name)) > 0 || len(d.Attributes) > 32 || d.Capacity != nil || !*d.AllowMultipleAllocations {
					t.Errorf("%d networks: device %+v", n, d)
				}
				names[d.Name] = true
				for id := range attachment.NetworkIDs(d.Attributes) {
					seen[id]++
				}
			}
		}
		if len(names) > limit || (len(pool) > 0) != (n > 0) {
			t.Errorf("%d networks: %d devices in %d slices, want at most %d devices", n, len(names), len(pool), limit)
		}
		for _, d := range networks {
			if seen[d.ID] != 1 {
				t.Errorf("%d networks: %s is listed %d times", n, d.Network.Ref, seen[d.ID])
			}
		}
	}
}

// TestArrangeChangesLittle checks that a network more or less changes one slice, or rarely two, of many.
func TestArrangeChangesLittle(t *testing.T) {
	networks := many(t, 1_000)
	changed := map[int]int{}
	before := arranged(networks, nil, podsOfNode)
	for i := range 100 {
		after := arranged(slices.Delete(slices.Clone(networks), i, i+1), nil, podsOfNode)
		count := 0
		for s := range max(len(before), len(after)) {
			if s >= len(before) || s >= len(after) || !cmp.Equal(before[s], after[s], cmp.AllowUnexported(device{})) {
				count++
			}
		}
		changed[count]++
	}
	if changed[1] < 80 {
		t.Errorf("changed slices: %v", changed)
	}
	shuffled := slices.Clone(networks)
	slices.Reverse(shuffled)
	if diff := cmp.Diff(before, arranged(shuffled, nil, podsOfNode), cmp.AllowUnexported(device{})); diff != "" {
		t.Errorf("the order of the NADs matters (-before +after):\n%s", diff)
	}
}

// TestBelongs checks by its name to what place a device belongs.
func TestBelongs(t *testing.T) {
	for _, tt := range []struct {
		device, name string
		want         bool
	}{
		{"node-0-0", "node", true},
		{"node-12-3", "node", true},
		{"node-0-0-7", "node", true},
		{"nodes-0-0", "node", false},
		{"ens1-0-0", "ens1", true},
		{"ens10-0-0", "ens1", false},
		{placeName("ens1-0") + "-0-0", "ens1", false},
		{placeName("node") + "-0-0", "node", false},
		{"ens1-0-0", placeName("ens1-0"), false},
		{"default-blue-0123456789", "default-blue-0123456789", true},
		{"default-blue-0123456789-4", "default-blue-0123456789", true},
		{"node-0-0", "", false},
	} {
		if got := Belongs(tt.device, tt.name); got != tt.want {
			t.Errorf("%s belongs to %q: %v", tt.device, tt.name, got)
		}
	}
}

// TestPlaceName checks that the names of interfaces make labels, each another one.
func TestPlaceName(t *testing.T) {
	seen := map[string]string{}
	for _, master := range []string{"ens1", "ens1.100", "ens1-100", "ENS1", "node", "bond0_a", "1x", strings.Repeat("a", 60), "é", "-"} {
		name := placeName(master)
		if problems := validation.IsDNS1123Label(name + "-999-99-99999"); len(problems) > 0 || seen[name] != "" {
			t.Errorf("%s makes %q, as %q does: %v", master, name, seen[name], problems)
		}
		seen[name] = master
	}
	if placeName("ens1") != "ens1" {
		t.Errorf("ens1 makes %s", placeName("ens1"))
	}
}

// TestCopiesWhereDevicesAreExclusive checks that devices are published as copies, and a limited network as
// no more of them than it has addresses.
func TestCopiesWhereDevicesAreExclusive(t *testing.T) {
	long := strings.Repeat("a-very-long-name-", 12) + "x"
	networks := defined(t, map[string]string{
		"red": drivertest.RedConf, long: `{"cniVersion":"1.0.0","name":"short","type":"bridge","ipam":{"type":"host-local","subnet":"10.0.0.0/28"}}`,
	})
	p := offered(networks, nil, podsOfNode, Options{Copies: 150, Exclusive: true})
	count, seen := map[attachment.NetworkID]int{}, map[string]bool{}
	for _, devices := range p.Slices() {
		if len(devices) > sliceLimit {
			t.Errorf("a slice of %d devices", len(devices))
		}
		for _, d := range devices {
			if errs := validation.IsDNS1123Label(d.Name); len(errs) > 0 || seen[d.Name] {
				t.Errorf("device name %q: %v, seen %v", d.Name, errs, seen[d.Name])
			}
			seen[d.Name] = true
			if d.AllowMultipleAllocations != nil || d.Capacity != nil {
				t.Errorf("device %+v", d)
			}
			for id := range attachment.NetworkIDs(d.Attributes) {
				count[id]++
			}
		}
	}
	for _, d := range networks {
		want := 150
		if d.addresses != nil {
			want = 13
		}
		if count[d.ID] != want {
			t.Errorf("%s has %d devices, want %d", d.Network.Ref, count[d.ID], want)
		}
		for name := range seen {
			if !Belongs(name, "node") && !Belongs(name, d.Bases(nil, podsOfNode)[0]) && d.addresses != nil {
				t.Errorf("device %s belongs to nothing", name)
			}
		}
	}
}

// TestLimitedDevice checks that each claim takes one address of a range that may run out.
func TestLimitedDevice(t *testing.T) {
	networks := defined(t, map[string]string{"blue": `{"cniVersion":"1.0.0","type":"bridge","ipam":{"type":"host-local","subnet":"10.0.0.0/28"}}`})
	d := offered(networks, nil, podsOfNode, Options{}).Slices()[0][0]
	capacity := d.Capacity[attachment.CapacityAddresses]
	if d.Name != attachment.DeviceName(networks[0].Network.Ref) || len(d.Capacity) != 1 || capacity.Value.Value() != 13 || capacity.RequestPolicy.Default.Value() != 1 {
		t.Errorf("device %+v: without a default of 1, the first claim takes all", d)
	}
}

package publish

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
)

// defined returns the definitions of NADs with these configurations.
func defined(t testing.TB, configs map[string]string) []*definition {
	t.Helper()
	var out []*definition
	for name, config := range configs {
		d := (&definitions{}).of([]*nadv1.NetworkAttachmentDefinition{drivertest.NAD(name, config)}, nil)[0]
		if d.err != nil {
			t.Fatal(d.err)
		}
		out = append(out, d)
	}
	return out
}

// many returns the definitions of n networks of a bridge.
func many(t testing.TB, n int) []*definition {
	configs := map[string]string{}
	for i := range n {
		configs[fmt.Sprint("net", i)] = drivertest.RedConf
	}
	return defined(t, configs)
}

// card returns an interface with a PCI function.
func card(name, address string) Link {
	return Link{name: name, pci: pciAttributes{"resource.kubernetes.io/pciBusID": slicewriter.String(address)}}
}

// arranged returns the devices of networks in slices.
func arranged(networks []*definition, links map[string]Link, pods int64) [][]*device {
	return published(networks, links, pods, deviceOptions{}).devices
}

func published(networks []*definition, links map[string]Link, pods int64, options deviceOptions) *publication {
	var first *publication
	return first.of(arrangement{slices.Clone(networks), links, pods}, options)
}

// described returns the slices of an arrangement: of each device its name, the attributes that align it,
// its networks out of those that are known, and its addresses.
func described(made [][]*device, known []*definition) [][]string {
	names := map[attachment.NetworkID]string{}
	for _, d := range known {
		names[d.id] = d.network.Ref.Name
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
		"vlan": macvlanOn("ens1.100"), "card": macvlanOn("ens1"), "alias": macvlanOn("fabric"), "second": macvlanOn("ens1-0"),
		"limited": limited, "limitedcard": strings.Replace(limited, `"type":"bridge"`, `"type":"macvlan","master":"ens1"`, 1),
		"chain": `{"cniVersion":"1.0.0","plugins":[{"type":"macvlan","master":"ens1"},{"type":"ipvlan","master":"ens1-0"}]}`,
	})
	ens1, second := card("ens1", "0000:01:00.0"), card("ens1-0", "0000:02:00.0")
	links := map[string]Link{"ens1": ens1, "fabric": ens1, "ens1-0": second, "ens1.100": {name: "ens1.100"}}
	got := described(arranged(networks, links, usualPods), networks)
	want := [][]string{
		{"ens1-0-0 ens1 0000:01:00.0 [alias card]", "ens1-0-xdb80101d-0-0 ens1-0 0000:02:00.0 [second]", "ens1-ens1-0-x763d0f61-0-0 ens1 0000:02:00.0 [chain]"},
		{"node-0-0 [bridge vlan wide]"},
		{"default-limited-eb937ad1c8 [limited] 13", "default-limitedcard-b08738fde8 ens1 0000:01:00.0 [limitedcard] 13"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
	want = [][]string{{"default-limited-eb937ad1c8 [limited] 13", "default-wide-9f28af99ab [wide] 253"}}
	few := slices.DeleteFunc(slices.Clone(networks), func(d *definition) bool { return d.network.Ref.Name != "wide" && d.network.Ref.Name != "limited" })
	got = described(arranged(few, links, 300), networks)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("one slice, on a node of 300 pods (-want +got):\n%s", diff)
	}
}

// TestArrangeMany checks that devices and slices keep the API's limits, that each network is listed once, and
// that the number of devices stays small.
func TestArrangeMany(t *testing.T) {
	for n, devices := range map[int]int{0: 0, 1: 1, 100: 2, 200: 4, 1000: 18, 10_000: 160} {
		networks := many(t, n)
		pool := published(networks, nil, usualPods, deviceOptions{}).pool()
		seen, names := map[attachment.NetworkID]int{}, map[string]bool{}
		for _, s := range pool.Slices {
			if size := (&resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Devices: s.Devices}}).Size(); size > 7<<10 {
				t.Errorf("%d networks: a slice of %d bytes", n, size)
			}
			for _, d := range s.Devices {
				if names[d.Name] || len(validation.IsDNS1123Label(d.Name)) > 0 || len(d.Attributes) > 32 || d.Capacity != nil || !*d.AllowMultipleAllocations {
					t.Errorf("%d networks: device %+v", n, d)
				}
				names[d.Name] = true
				for id := range attachment.NetworkIDs(d.Attributes) {
					seen[id]++
				}
			}
		}
		if len(names) > devices || (len(pool.Slices) > 0) != (n > 0) {
			t.Errorf("%d networks: %d devices in %d slices, want at most %d devices", n, len(names), len(pool.Slices), devices)
		}
		for _, d := range networks {
			if seen[d.id] != 1 {
				t.Errorf("%d networks: %s is listed %d times", n, d.network.Ref, seen[d.id])
			}
		}
	}
}

// TestArrangeChangesLittle checks that a network more or less changes one slice, or rarely two, of many.
func TestArrangeChangesLittle(t *testing.T) {
	networks := many(t, 1_000)
	changed := map[int]int{}
	before := arranged(networks, nil, usualPods)
	for i := range 100 {
		after := arranged(slices.Delete(slices.Clone(networks), i, i+1), nil, usualPods)
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
	if diff := cmp.Diff(before, arranged(shuffled, nil, usualPods), cmp.AllowUnexported(device{})); diff != "" {
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
		if got := belongs(tt.device, tt.name); got != tt.want {
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
	p := published(networks, nil, usualPods, deviceOptions{copies: 150, exclusive: true})
	count, seen := map[attachment.NetworkID]int{}, map[string]bool{}
	for _, s := range p.pool().Slices {
		if len(s.Devices) > sliceLimit {
			t.Errorf("a slice of %d devices", len(s.Devices))
		}
		for _, d := range s.Devices {
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
		if count[d.id] != want {
			t.Errorf("%s has %d devices, want %d", d.network.Ref, count[d.id], want)
		}
		for name := range seen {
			if !belongs(name, "node") && !belongs(name, d.baseOf(nil, usualPods)) && d.addresses != nil {
				t.Errorf("device %s belongs to nothing", name)
			}
		}
	}
}

// TestLimitedDevice checks that each claim takes one address of a range that may run out.
func TestLimitedDevice(t *testing.T) {
	networks := defined(t, map[string]string{"blue": `{"cniVersion":"1.0.0","type":"bridge","ipam":{"type":"host-local","subnet":"10.0.0.0/28"}}`})
	d := published(networks, nil, usualPods, deviceOptions{}).pool().Slices[0].Devices[0]
	capacity := d.Capacity[attachment.CapacityAddresses]
	if d.Name != attachment.DeviceName(networks[0].network.Ref) || len(d.Capacity) != 1 || capacity.Value.Value() != 13 || capacity.RequestPolicy.Default.Value() != 1 {
		t.Errorf("device %+v: without a default of 1, the first claim takes all", d)
	}
}

// equalIDs returns two NADs with the same ID, of which the first is earlier.
func equalIDs(first, second string) (a, b *nadv1.NetworkAttachmentDefinition) {
	a, b = drivertest.NAD("net552030", first), drivertest.NAD("n6iz", second)
	b.Namespace = "team-evil"
	a.CreationTimestamp, b.CreationTimestamp = metav1.Unix(1, 0), metav1.Unix(2, 0)
	return a, b
}

const tinyConf = `{"cniVersion":"1.0.0","type":"bridge","ipam":{"type":"host-local","subnet":"10.0.0.0/28"}}`

// TestEqualIDs checks that no node lists two networks by the same ID, whether the node can attach the earlier
// one or not, and that the later gets the ID when the earlier is deleted.
func TestEqualIDs(t *testing.T) {
	b := newBench(t)
	earlier, later := equalIDs(tinyConf, drivertest.RedConf)
	ref := attachment.NetworkRef{Namespace: "team-evil", Name: "n6iz"}
	short, long := attachment.NetworkIDOf(ref), attachment.LongNetworkIDOf(ref)
	own := attachment.DeviceName(attachment.NetworkRef{Namespace: "default", Name: "net552030"})
	check := func(what string, want map[attachment.NetworkID]string) {
		t.Helper()
		now, err := b.refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := map[attachment.NetworkID]string{}
		for _, d := range now.pool().Slices[0].Devices {
			for id := range attachment.NetworkIDs(d.Attributes) {
				got[id] += d.Name
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	_ = b.nads.Add(later)
	check("one network", map[attachment.NetworkID]string{short: "node-0-0"})
	_ = b.nads.Add(earlier)
	check("an earlier one", map[attachment.NetworkID]string{short: own, long: "node-0-0"})
	unusable := earlier.DeepCopy()
	unusable.Spec.Config = macvlanOn("nowhere")
	_ = b.nads.Update(unusable)
	check("an earlier one that is not usable here", map[attachment.NetworkID]string{long: "node-0-0"})
	_ = b.nads.Delete(unusable)
	check("the earlier one is gone", map[attachment.NetworkID]string{short: "node-0-0"})
}

// TestSuits checks which networks a claim may attach with its device.
func TestSuits(t *testing.T) {
	b := newBench(t)
	b.hostLinks["ens1"] = card("ens1", "0000:01:00.0")
	for name, config := range map[string]string{
		"red": drivertest.RedConf, "card": macvlanOn("ens1"), "lost": macvlanOn("nowhere"), "limited": tinyConf,
	} {
		_ = b.nads.Add(drivertest.NAD(name, config))
	}
	victim, evil := equalIDs(macvlanOn("ens1"), tinyConf)
	_, _ = b.nads.Add(victim), b.nads.Add(evil)
	b.sync(t)
	limited := attachment.DeviceName(attachment.NetworkRef{Namespace: "default", Name: "limited"})
	ofEvil := attachment.DeviceName(attachment.NetworkRef{Namespace: "team-evil", Name: "n6iz"})
	devices := []string{"node-0-0", "node-3-1", "ens1-0-0", limited, ofEvil}
	for name, tt := range map[string]struct{ chosen, refusedOfClass []string }{
		"red":       {[]string{"node-0-0", "node-3-1"}, nil},
		"lost":      {[]string{"node-0-0", "node-3-1"}, nil},
		"card":      {[]string{"ens1-0-0"}, nil},
		"limited":   {[]string{limited}, nil},
		"unknown":   {devices, nil},
		"net552030": {[]string{"ens1-0-0"}, []string{ofEvil}},
	} {
		for _, device := range devices {
			ref := attachment.NetworkRef{Namespace: "default", Name: name}
			err := b.View.Suits(device, ref, false)
			if got, want := reason.Of(err) != reason.ClaimInvalid, slices.Contains(tt.chosen, device); got != want {
				t.Errorf("network %s, chosen, with device %s: %v", name, device, err)
			}
			err = b.View.Suits(device, ref, true)
			if got, want := reason.Of(err) == reason.DeviceMismatch, slices.Contains(tt.refusedOfClass, device); got != want {
				t.Errorf("network %s, of the class, with device %s: %v", name, device, err)
			}
		}
	}
	drivertest.WantReason(t, b.View.Suits("node-0-0", attachment.NetworkRef{}, false), reason.ClaimInvalid)
}

package attachment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/bounded"
)

func seeds(f *testing.F, pattern string) []string {
	f.Helper()
	files, err := filepath.Glob("../../testdata/attachment/" + pattern)
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds in %s: %v", pattern, err)
	}
	var out []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		out = append(out, string(raw))
	}
	return out
}

// FuzzParseNetwork checks that libcni reads every network that parses, that parsing the list again
// returns the same network, and that arguments and a device can be merged into it.
func FuzzParseNetwork(f *testing.F) {
	for _, config := range append(seeds(f, "networks/*"), largeConfigs()...) {
		f.Add(config)
	}
	if c := loadCorpus(f); c != nil {
		for _, obj := range c.networks {
			f.Add(obj.Spec.Config)
		}
	}
	f.Fuzz(func(t *testing.T, config string) {
		bounded.Run(t, len(config), func() {
			n, err := ParseNetwork(nad(config))
			if err != nil {
				return
			}
			list, err := libcni.NetworkConfFromBytes(n.Conflist)
			if err != nil {
				t.Fatalf("libcni on %s: %v", n.Conflist, err)
			}
			if list.Name != n.CNIName || len(list.Plugins) != len(n.Plugins) {
				t.Errorf("libcni reads %q with %d plugins, we read %q with %d", list.Name, len(list.Plugins), n.CNIName, len(n.Plugins))
			}
			again, err := ParseNetwork(nad(string(n.Conflist)))
			if reason.Of(err) == reason.LimitExceeded {
				return // a plugin alone is shorter than the list
			}
			if err != nil {
				t.Fatalf("parsing %s again: %v", n.Conflist, err)
			}
			if diff := cmp.Diff(n, again); diff != "" {
				t.Errorf("parsing again (-first +second):\n%s", diff)
			}
			checkMerge(t, n)
		})
	})
}

func checkMerge(t *testing.T, n Network) {
	a, err := NewAttachment(n, Selection{CNIArgs: object{"k": mustJSON("v")}}, "net1")
	if err != nil {
		return // args of the configuration's own that are no object
	}
	a, err = a.WithDevice("0000:03:00.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := libcni.NetworkConfFromBytes(a.Conflist); err != nil {
		t.Errorf("libcni on %s: %v", a.Conflist, err)
	}
	if _, err := a.Renewed(n); err != nil {
		t.Errorf("renewing %s: %v", a.Conflist, err)
	}
	if on, err := a.OnDevice(OtherDriverDevice{Driver: "nic.example.com", Device: "vf-3", ID: "0000:3b:02.3", Interface: "eth3"}); err == nil {
		if _, err := ParseNetwork(nad(string(on.Conflist))); err != nil && reason.Of(err) != reason.LimitExceeded {
			t.Errorf("on a device, the plugin gets %s: %v", on.Conflist, err)
		}
	}
}

// FuzzParseSelections checks that every annotation that parses is valid in a claim, which returns
// the same selections.
func FuzzParseSelections(f *testing.F) {
	for _, annotation := range append(seeds(f, "annotations/*"), largeAnnotations()...) {
		f.Add(annotation)
	}
	if c := loadCorpus(f); c != nil {
		for _, annotation := range c.annotations {
			f.Add(annotation)
		}
	}
	f.Fuzz(func(t *testing.T, annotation string) {
		bounded.Run(t, len(annotation), func() {
			selections, err := ParseSelections(annotation, "default")
			if err != nil {
				return
			}
			for _, s := range selections {
				checkConfigRoundTrip(t, s)
			}
			if _, err := InterfaceNames(selections); err != nil || len(selections) == 0 {
				return
			}
			if _, err := ClaimSpec(selections); err == nil {
				checkClaimRoundTrip(t, selections)
			}
		})
	})
}

// FuzzFromClaim checks that accepted opaque parameters make an attachment that libcni can read, or
// an error, and that they mean the same when the API server reorders them.
func FuzzFromClaim(f *testing.F) {
	for _, parameters := range seeds(f, "configs/*") {
		f.Add(parameters)
	}
	if c := loadCorpus(f); c != nil {
		for _, annotation := range c.annotations {
			selections, _ := ParseSelections(annotation, "default")
			for _, s := range selections {
				f.Add(string(mustJSON(toConfig(s))))
			}
		}
	}
	network, err := ParseNetwork(nad(`{"cniVersion": "1.0.0", "plugins": [{"type": "a", "capabilities": {"ips": true}}, {"type": "b", "args": {"cni": {}}}]}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, parameters string) {
		bounded.Run(t, len(parameters), func() {
			claim := allocate(resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
				Requests: []resourceapi.DeviceRequest{{Name: "net1"}},
			}}, []Selection{{Network: network.Ref}})
			claim.Status.Allocation.Devices.Config = append(claim.Status.Allocation.Devices.Config, resourceapi.DeviceAllocationConfiguration{
				Source: ofClaim, DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
					Driver: v1alpha1.DriverName, Parameters: runtime.RawExtension{Raw: []byte(parameters)},
				}},
			})
			requested, err := FromClaim(claim, suits)
			if err != nil {
				return
			}
			checkConfigRoundTrip(t, requested[0].Selection)
			plan, err := NewPlan([]Selection{requested[0].Selection}, func(NetworkRef) (Network, error) { return network, nil })
			if err != nil {
				return
			}
			if _, err := libcni.NetworkConfFromBytes(plan[0].Conflist); err != nil {
				t.Errorf("libcni on %s: %v", plan[0].Conflist, err)
			}
		})
	})
}

// TestGrowth checks that no repetition in an annotation, a network or a claim's parameters is work with the square of its
// number, also if it is refused in the end.
func TestGrowth(t *testing.T) {
	for _, shape := range []func(n int) func(){
		func(n int) func() {
			annotation := strings.Repeat("a,", n) + "a"
			return func() { _, _ = ParseSelections(annotation, "default") }
		},
		func(n int) func() {
			annotation := "[" + strings.Repeat(`{"name":"a","ips":["10.0.0.1/8"]},`, n) + `{"name":"a"}]`
			return func() { _, _ = ParseSelections(annotation, "default") }
		},
		func(n int) func() {
			annotation := `[{"name":"a"` + strings.Repeat(`,"x":1`, n) + "}]"
			return func() { _, _ = ParseSelections(annotation, "default") }
		},
		func(n int) func() {
			config := `{"cniVersion":"1.0.0","plugins":[` + strings.Repeat(`{"type":"a"},`, n) + `{"type":"a"}]}`
			return func() { _, _ = ParseNetwork(nad(config)) }
		},
		func(n int) func() {
			config := `{"cniVersion":"1.0.0","type":"a","x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}"
			return func() { _, _ = ParseNetwork(nad(config)) }
		},
	} {
		bounded.Growth(t, 4000, shape)
	}
}

package pools

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/bounded"
)

// What is accepted has a name, a selector, and a place; and can be assigned.
func sound(t *testing.T, pools []Pool) {
	t.Helper()
	for _, p := range pools {
		if p.ResourceName == "" || len(p.Selectors) == 0 || p.Source.Object == "" {
			t.Errorf("accepted without a name, selector or source: %+v", p)
		}
	}
	unique, _ := Unique(pools)
	if assigned, _ := Assign(node(), unique); len(assigned) > len(node().Functions) {
		t.Errorf("%d assignments of %d functions", len(assigned), len(node().Functions))
	}
}

func FuzzSRIOVConfig(f *testing.F) {
	f.Add([]byte(`{"resourceList": [{"resourceName": "a", "resourcePrefix": "b.c", "deviceType": "netDevice", "excludeTopology": true,
		"additionalInfo": {"*": {"k": "v"}}, "selectors": [{"vendors": ["8086"], "pfNames": ["eno1#0-3,7"], "IsRdma": true, "needVhostNet": true}]}]}`))
	f.Add([]byte(`{"resourceList": [{"resourceName": "a", "deviceType": "auxNetDevice", "selectors": {"auxTypes": ["sf"]}}, null]}`))
	f.Add([]byte(`{"resourceList": [{"resourceName": "a", "deviceType": "accelerator", "selectors": null}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounded.Run(t, len(raw), func() {
			pools, _ := ParseConfig(Source{Object: "ConfigMap a/b"}, raw, Options{})
			sound(t, pools)
		})
	})
}

func FuzzRDMAConfig(f *testing.F) {
	f.Add([]byte(`{"periodicUpdateInterval": 300, "configList": [{"resourceName": "a", "rdmaHcaMax": 2, "devices": ["ib0"]},
		{"resourceName": "b", "resourcePrefix": "c.d", "rdmaHcaMax": 2, "selectors": {"vendors": ["15b3"], "ifNames": ["ib0"]}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounded.Run(t, len(raw), func() {
			pools, _ := ParseConfig(Source{Object: "ConfigMap a/b"}, raw, Options{})
			sound(t, pools)
		})
	})
}

func FuzzSriovNetworkNodePolicy(f *testing.F) {
	f.Add([]byte(policy("p", `"resourceName": "a", "priority": 3, "deviceType": "vfio-pci", "linkType": "eth", "nicSelector": {"vendor": "8086", "deviceID": "158b", "pfNames": ["a#1"]}`)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounded.Run(t, len(raw), func() {
			p, ok, err := ParsePolicy(raw, "")
			if ok != (err == nil && p.Pool.ResourceName != "") {
				t.Fatalf("ok %v, error %v, pool %+v", ok, err, p)
			}
			if ok {
				sound(t, FromPolicies([]Policy{p}, p.NodeSelector))
			}
		})
	})
}

// TestParseGrowth checks that a configuration of many pools, and one of a pool with many selectors, is not work with the
// square of their number.
func TestParseGrowth(t *testing.T) {
	for _, shape := range []func(n int) string{
		func(n int) string {
			var out strings.Builder
			for i := range n {
				fmt.Fprintf(&out, `{"resourceName": "a%d", "selectors": [{"vendors": ["8086"]}]},`, i)
			}
			return `{"resourceList": [` + strings.TrimSuffix(out.String(), ",") + "]}"
		},
		func(n int) string {
			return `{"resourceList": [{"resourceName": "a", "selectors": [` + strings.Repeat(`{"vendors": ["8086"]},`, n) + `{}]}]}`
		},
	} {
		bounded.Growth(t, 1000, func(n int) func() {
			text := []byte(shape(n))
			return func() {
				pools, _ := ParseConfig(Source{Object: "ConfigMap a/b"}, text, Options{})
				unique, _ := Unique(pools)
				_, _ = Assign(node(), unique)
			}
		})
	}
}

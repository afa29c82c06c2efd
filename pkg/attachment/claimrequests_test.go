package attachment

import (
	"fmt"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"
)

func TestRequestsOfClaim(t *testing.T) {
	const lan = `{exactly: {deviceClassName: lan.shop.nad.nadra.dev}, name: lan}`
	config := func(requests, more string) string {
		return fmt.Sprintf(`{requests: %s, opaque: {driver: net.nadra.dev, parameters: {apiVersion: nadra.dev/v1alpha1, kind: AttachmentConfig%s}}}`, requests, more)
	}
	classes := func(name string) *resourceapi.DeviceClass {
		text := map[string]string{
			"fast":  `{spec: {config: [{opaque: {driver: net.nadra.dev, parameters: {apiVersion: nadra.dev/v1alpha1, kind: AttachmentConfig, network: {namespace: ops, name: fast}}}}]}}`,
			"all":   `{spec: {selectors: [{cel: {expression: "device.driver == 'net.nadra.dev'"}}]}}`,
			"other": `{spec: {selectors: [{cel: {expression: 'device.driver == "dpu.net.nadra.dev"'}}]}}`,
		}[name]
		if text == "" {
			return nil
		}
		c := &resourceapi.DeviceClass{}
		if err := yaml.Unmarshal([]byte(text), c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	selector := func(cel string) string {
		return fmt.Sprintf(`{name: r, exactly: {deviceClassName: net.nadra.dev, selectors: [{cel: {expression: '%s'}}]}}`, cel)
	}
	for _, tc := range []struct {
		name, requests, config string
		networks               string
		of                     []string
		others                 bool
		unknown                string
	}{
		{"a network's class", lan, "", "shop/lan", []string{"lan"}, false, ""},
		{"an interface that the claim sets", lan, config("[lan]", ", interface: data"), "shop/lan@data", []string{"lan"}, false, ""},
		{"several, in their order", `{name: b, exactly: {deviceClassName: wan.ops.nad.nadra.dev}}, ` + lan, config("[b]", ", interface: up"), "ops/wan@up,shop/lan", []string{"b", "lan"}, false, ""},
		{"twice by count", `{name: a, exactly: {deviceClassName: lan.shop.nad.nadra.dev, count: 2}}`, "", "shop/lan,shop/lan", []string{"a"}, false, ""},
		{"all of them", `{name: a, exactly: {deviceClassName: lan.shop.nad.nadra.dev, allocationMode: All}}`, "", "", []string{"a"}, false, "a"},
		{"a class that names the network", `{name: a, exactly: {deviceClassName: fast}}`, "", "ops/fast", []string{"a"}, false, ""},
		{"a config that names it, in the claim's namespace", `{name: a, exactly: {deviceClassName: mine}}`, config("[a]", ", network: {name: lan}"), "shop/lan", []string{"a"}, false, ""},
		{"a config for all requests, beside another driver's", `{name: g, exactly: {deviceClassName: gpu}}, ` + lan, config("[]", ", mac: '02:00:00:00:00:01'"), "shop/lan", []string{"lan"}, true, ""},
		{"a config for all requests that names the network", `{name: g, exactly: {deviceClassName: gpu}}, ` + lan, config("[]", ", network: {name: lan}"), "shop/lan", []string{"lan"}, true, ""},
		{"a config beside a selector of the driver's devices", selector(`"n_a" in device.attributes["net.nadra.dev"]`), config("[]", ", network: {name: lan}"), "shop/lan", []string{"r"}, false, ""},
		{"a config for all requests beside a class of the driver's devices", `{name: o, exactly: {deviceClassName: other}}, {name: a, exactly: {deviceClassName: all}}`, config("[]", ", network: {name: lan}"), "shop/lan", []string{"a"}, true, ""},
		{"a selector without a config", selector(`"n_a" in device.attributes["net.nadra.dev"]`), "", "", nil, true, ""},
		{"alternatives of one network", `{name: a, firstAvailable: [{name: x, deviceClassName: lan.shop.nad.nadra.dev}, {name: y, deviceClassName: lan.shop.nad.nadra.dev}]}`, "", "shop/lan", []string{"a"}, false, ""},
		{"alternatives of two", `{name: a, firstAvailable: [{name: x, deviceClassName: lan.shop.nad.nadra.dev}, {name: y, deviceClassName: wan.shop.nad.nadra.dev}]}`, "", "", []string{"a"}, false, "a"},
		{"another driver first", `{name: a, firstAvailable: [{name: x, deviceClassName: gpu}, {name: y, deviceClassName: lan.shop.nad.nadra.dev}]}`, "", "", []string{"a"}, false, "a"},
		{"another driver's", `{name: a, exactly: {deviceClassName: gpu}}`, "", "", nil, true, ""},
		{"a device alone", `{name: a, exactly: {deviceClassName: sriov.intel.com.pool.nadra.dev}}`, "", "", nil, true, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var spec resourceapi.ResourceClaimSpec
			text := fmt.Sprintf("{devices: {requests: [%s], config: [%s]}}", tc.requests, tc.config)
			if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
				t.Fatal(err)
			}
			got := RequestsOfClaim(spec, "shop", classes)
			if tc.unknown == "" && NetworksValue(got.Selections) != tc.networks {
				t.Errorf("networks %s, want %s", NetworksValue(got.Selections), tc.networks)
			}
			if !slices.Equal(got.Names, tc.of) || got.Others != tc.others || got.Unknown != tc.unknown {
				t.Errorf("requests %v, others %v, unknown %q; want %v, %v, %q", got.Names, got.Others, got.Unknown, tc.of, tc.others, tc.unknown)
			}
		})
	}
}

// TestNetworksValueIsRead checks that ParseSelections reads the value that the webhook writes.
func TestNetworksValueIsRead(t *testing.T) {
	want := []Selection{{Network: NetworkRef{"a", "x"}, Interface: "data"}, {Network: NetworkRef{"b", "y.z"}}}
	got, err := ParseSelections(NetworksValue(want), "pod")
	if err != nil || !SameNetworks(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	for name, other := range map[string][]Selection{
		"another order":     {want[1], want[0]},
		"one fewer":         want[:1],
		"another interface": {{Network: want[0].Network, Interface: "up"}, want[1]},
		"another network":   {want[0], {Network: NetworkRef{"b", "z"}}},
	} {
		if SameNetworks(want, other) {
			t.Errorf("%s: the same", name)
		}
	}
}

package attachment

import "testing"

// TestMasterCountsForPluginsThatReadIt checks that a key which a plugin ignores is not a master.
func TestMasterCountsForPluginsThatReadIt(t *testing.T) {
	for _, tc := range []struct{ name, config, want string }{
		{"macvlan", `{"type":"macvlan","master":"eth1"}`, "eth1"},
		{"ipvlan", `{"type":"ipvlan","master":"eth1"}`, "eth1"},
		{"vlan", `{"type":"vlan","master":"eth1","vlanId":5}`, "eth1"},
		{"ipoib", `{"type":"ipoib","master":"ib0"}`, "ib0"},
		{"no key: the plugin takes the default route's interface", `{"type":"macvlan"}`, ""},
		{"an interface of the pod", `{"type":"vlan","master":"net1","vlanId":5,"linkInContainer":true}`, ""},
		{"linkInContainer is false", `{"type":"ipvlan","master":"eth1","linkInContainer":false}`, "eth1"},
		{"bridge", `{"type":"bridge","bridge":"br0","master":"eth1"}`, ""},
		{"ptp", `{"type":"ptp","master":"eth1"}`, ""},
		{"host-device goes by device", `{"type":"host-device","device":"eth2","master":"eth1"}`, ""},
		{"sriov goes by deviceID", `{"type":"sriov","master":"eth1"}`, ""},
		{"ib-sriov goes by deviceID", `{"type":"ib-sriov","master":"ib0"}`, ""},
		{"macvtap goes by deviceID", `{"type":"macvtap","master":"eth1"}`, ""},
		{"bond goes by links", `{"type":"bond","master":"eth1","links":[{"name":"net1"}]}`, ""},
		{"a plugin that nadra does not know", `{"type":"acme","master":"eth1"}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, err := ParseNetwork(nad(tc.config))
			if err != nil {
				t.Fatal(err)
			}
			if got := n.Plugins[0].Master; got != tc.want {
				t.Errorf("master %q, want %q", got, tc.want)
			}
		})
	}
}

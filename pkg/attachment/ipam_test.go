package attachment

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/containernetworking/cni/libcni"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// TestMayRelease checks which DELs may release what another network of the sandbox has.
func TestMayRelease(t *testing.T) {
	ipam := func(text string) string {
		return `{"plugins":[{"type":"macvlan","ipam":` + text + `},{"type":"tuning"}]}`
	}
	pool := ipam(`{"type":"whereabouts","range":"10.0.0.0/24"}`)
	for _, tt := range []struct {
		name, one, other string
		want             bool
	}{
		{"the same range", pool, pool, true},
		{"the same subnet, written otherwise", pool, ipam(`{"type":"whereabouts","range":"10.0.0.7-10.0.0.9/24"}`), true},
		{"one of several ranges", pool, ipam(`{"type":"whereabouts","ipRanges":[{"range":"fd00::/64"},{"range":"10.0.0.1/24"}]}`), true},
		{"another range", pool, ipam(`{"type":"whereabouts","range":"10.0.1.0/24"}`), false},
		{"another subnet of the same beginning", pool, ipam(`{"type":"whereabouts","range":"10.0.0.0/25"}`), false},
		{"a pool of another name", pool, ipam(`{"type":"whereabouts","range":"10.0.0.0/24","network_name":"other"}`), false},
		{"a range from a file", pool, ipam(`{"type":"whereabouts"}`), true},
		{"a range that cannot be read", pool, ipam(`{"type":"whereabouts","range":"all"}`), true},
		{"a configuration of one plugin", pool, `{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}`, true},
		{"a configuration of one plugin that has plugins, too", pool, `{"type":"macvlan","plugins":[],"ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}`, true},
		{"another spelling beside it", pool, `{"plugins":[{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24"},"IPAM":{}}]}`, true},
		{"host-local", ipam(`{"type":"host-local","subnet":"10.0.0.0/24"}`), ipam(`{"type":"host-local","subnet":"10.0.0.0/24"}`), false},
		{"host-local of the same range", pool, ipam(`{"type":"host-local","subnet":"10.0.0.0/24"}`), false},
		{"no configuration", pool, `[`, false},
	} {
		one := Attachment{Interface: "net1", Conflist: json.RawMessage(tt.one)}
		other := Attachment{Interface: "net2", Conflist: json.RawMessage(tt.other)}
		if one.Held().MayRelease(other.Held()) != tt.want || other.Held().MayRelease(one.Held()) != tt.want {
			t.Errorf("%s: not %t", tt.name, tt.want)
		}
		other.Interface = "net1"
		if !one.Held().MayRelease(other.Held()) {
			t.Errorf("%s: the same interface is not released", tt.name)
		}
	}
}

// TestIPAM checks what nadra reads of the configurations of IPAM plugins.
func TestIPAM(t *testing.T) {
	for _, tt := range []struct{ config, subnets, fixed, leases string }{
		{
			`{"type":"host-local","subnet":"10.0.0.1/24","range":"10.9.0.0/24","ranges":[[{"subnet":"10.0.1.0/24"},{"subnet":"fd00::/64"}],[{"subnet":"10.0.0.0/24"}]]}`,
			"[10.0.0.0/24 10.0.1.0/24 fd00::/64]", "[]", "/var/lib/cni/networks/lan",
		},
		{`{"type":"host-local","dataDir":"/d","ranges":1}`, "[]", "[]", "/d/lan"},
		{`{"type":"whereabouts","subnet":"10.9.0.0/24","range":"10.0.0.7-10.0.0.9/24","ipRanges":[{"range":"fd00::/64"},{"range":"all"}]}`, "[10.0.0.0/24 fd00::/64]", "[]", ""},
		{`{"type":"static","addresses":[{"address":"10.0.0.7/24"},{"address":"fd00::7/64"}]}`, "[]", "[10.0.0.7/24 fd00::7/64]", ""},
		{`{"type":"dhcp","addresses":[{"address":"10.0.0.7/24"}]}`, "[]", "[]", ""},
		{`{"type":"other","subnet":"10.0.0.0/24","range":"10.0.1.0/24"}`, "[10.0.0.0/24 10.0.1.0/24]", "[]", ""},
		{`{"type":"other","subnet":"10.0.0.0/24","gateway":["10.0.0.1"],"ranges":["10.0.0.5-10.0.0.9"]}`, "[10.0.0.0/24]", "[]", ""},
		{`{"type":7,"dataDir":"/d"}`, "[]", "[]", ""},
		{`null`, "[]", "[]", ""},
	} {
		ipam := PluginsOf(json.RawMessage(`{"plugins":[{"type":"bridge","ipam":` + tt.config + `}]}`))[0].IPAM
		if got := fmt.Sprint(ipam.Prefixes()); got != tt.subnets {
			t.Errorf("%s: subnets %s, want %s", tt.config, got, tt.subnets)
		}
		if got := fmt.Sprint(ipam.Fixed()); got != tt.fixed {
			t.Errorf("%s: fixed addresses %s, want %s", tt.config, got, tt.fixed)
		}
		if got := ipam.LeaseDir("lan"); got != tt.leases {
			t.Errorf("%s: leases in %q, want %q", tt.config, got, tt.leases)
		}
	}
}

// TestTwoSpellings checks that a network is refused in which two keys are one for plugins: which of them counts would
// depend on an order that nadra changes, and a tenant could hide from nadra what runs.
func TestTwoSpellings(t *testing.T) {
	for name, config := range map[string]string{
		"a key that folds to plugins":           `{"cniVersion":"1.0.0","plugins":[{"type":"macvlan","master":"eth1"}],"pluginſ":[]}`,
		"plugins in capitals":                   `{"cniVersion":"1.0.0","plugins":[{"type":"macvlan","master":"eth1"}],"PLUGINS":null}`,
		"two sections ipam":                     `{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24"},"IPAM":{}}`,
		"two keys of ipam":                      `{"plugins":[{"type":"bridge","ipam":{"type":"host-local","subnet":"10.0.0.0/28","Subnet":"10.1.0.0/24"}}]}`,
		"two keys of an ipam in capitals":       `{"plugins":[{"type":"bridge","IPAM":{"type":"host-local","Type":"dhcp"}}]}`,
		"two types":                             `{"type":"vlan","Type":"bridge","master":"lan0","vlanId":5}`,
		"a second interface of the host":        `{"plugins":[{"type":"host-device","device":"eno1","Device":""}]}`,
		"a second mode":                         `{"plugins":[{"type":"macvlan","mode":"passthru","Mode":"bridge"}]}`,
		"a second master, by another character": `{"plugins":[{"type":"macvlan","maſter":"eno1","master":""}]}`,
		"a key that nadra does not know":        `{"plugins":[{"type":"vlan","vlanId":5,"vlanID":6}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseNetwork(nad(config))
			checkRefused(t, err, reason.NetworkInvalid, "keys")
		})
	}
}

// TestOtherSpellings checks that nadra reads of a configuration what libcni and the plugins read, and gives the plugin no
// second key beside one in another spelling.
func TestOtherSpellings(t *testing.T) {
	for name, tt := range map[string]struct{ config, want string }{
		"a master in capitals":  {`{"type":"macvlan","MASTER":"eth1"}`, "macvlan eth1 "},
		"a type in capitals":    {`{"plugins":[{"Type":"macvlan","Master":"eth1","IPAM":{"Type":"dhcp"}}]}`, "macvlan eth1 dhcp"},
		"a device by its ID":    {`{"type":"sriov","deviceid":"0000:00:00.1","pcibuſid":"0000:00:00.1"}`, "sriov  "},
		"a VLAN of another key": {`{"type":"vlan","Master":"lan0","vlanID":5}`, "vlan lan0 "},
	} {
		n, err := ParseNetwork(nad(tt.config))
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := libcni.NetworkConfFromBytes(n.Conflist)
		if err != nil {
			t.Fatal(err)
		}
		if len(n.Plugins) != len(parsed.Plugins) {
			t.Fatalf("%s: %d plugins, and libcni runs %d", name, len(n.Plugins), len(parsed.Plugins))
		}
		p := n.Plugins[0]
		if got := p.Type + " " + p.Master + " " + p.IPAM.Type; got != tt.want || p.Type != parsed.Plugins[0].Network.Type || p.IPAM.Type != parsed.Plugins[0].Network.IPAM.Type {
			t.Errorf("%s: %q, want %q; libcni runs %+v", name, got, tt.want, parsed.Plugins[0].Network)
		}
		a, err := NewAttachment(n, Selection{Network: n.Ref, CNIArgs: object{"k": mustJSON("v")}}, "net1")
		if err == nil {
			a, err = a.WithDevice("0000:03:00.1")
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseNetwork(nad(string(a.Conflist))); err != nil {
			t.Errorf("%s: with a device and arguments, the plugin gets %s: %v", name, a.Conflist, err)
		}
	}
}

// TestKeysInTheirOrder checks that of a key in several spellings the one counts that plugins get last: libcni sorts keys.
func TestKeysInTheirOrder(t *testing.T) {
	for _, config := range []string{`{"type":"macvlan","Type":"bridge","ipam":{"type":"static","TYPE":"dhcp"}}`, `{"Type":"bridge","type":"macvlan","ipam":{"TYPE":"dhcp","type":"static"}}`} {
		got := PluginsOf(json.RawMessage(`{"plugins":[` + config + `]}`))
		if len(got) != 1 || got[0].Type != "macvlan" || got[0].IPAM.Type != "static" {
			t.Errorf("%s: %+v", config, got)
		}
	}
}

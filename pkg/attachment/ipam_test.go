package attachment

import (
	"encoding/json"
	"testing"
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
		{"host-local", ipam(`{"type":"host-local","subnet":"10.0.0.0/24"}`), ipam(`{"type":"host-local","subnet":"10.0.0.0/24"}`), false},
		{"host-local of the same range", pool, ipam(`{"type":"host-local","subnet":"10.0.0.0/24"}`), false},
		{"no configuration", pool, `[`, false},
	} {
		one := Attachment{Interface: "net1", Conflist: json.RawMessage(tt.one)}
		other := Attachment{Interface: "net2", Conflist: json.RawMessage(tt.other)}
		if one.MayRelease(other) != tt.want || other.MayRelease(one) != tt.want {
			t.Errorf("%s: not %t", tt.name, tt.want)
		}
		other.Interface = "net1"
		if !one.MayRelease(other) {
			t.Errorf("%s: the same interface is not released", tt.name)
		}
	}
}

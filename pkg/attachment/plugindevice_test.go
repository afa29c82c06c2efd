package attachment

import (
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

func TestAssignPluginDevices(t *testing.T) {
	vf := Network{Ref: ref("shop", "vf"), ResourceName: "example.com/vf"}
	rdma := Network{Ref: ref("shop", "rdma"), ResourceName: "example.com/rdma"}
	lan := Network{Ref: ref("shop", "lan")}
	for name, c := range map[string]struct {
		networks []Network
		devices  map[string][]string
		want     []string
		refused  []string // what the error names
	}{
		"none draws":                {networks: []Network{lan}, want: []string{""}},
		"in order":                  {networks: []Network{vf, lan, rdma, vf}, devices: map[string][]string{"example.com/vf": {"a", "b"}, "example.com/rdma": {"c"}}, want: []string{"a", "", "c", "b"}},
		"some are left":             {networks: []Network{vf}, devices: map[string][]string{"example.com/vf": {"a", "b"}}, want: []string{"a"}},
		"no device":                 {networks: []Network{lan, vf}, refused: []string{"network shop/vf ", "example.com/vf", "limits"}},
		"too few":                   {networks: []Network{vf, vf}, devices: map[string][]string{"example.com/vf": {"a"}}, refused: []string{"shop/vf", "example.com/vf"}},
		"devices of another plugin": {networks: []Network{vf}, devices: map[string][]string{"example.com/rdma": {"a"}}, refused: []string{"network shop/vf ", "example.com/vf", "spec.nodeName"}},
	} {
		got, err := AssignPluginDevices(c.networks, c.devices)
		if c.refused != nil {
			if reason.Of(err) != reason.NoClaim {
				t.Errorf("%s: got %v, %v", name, got, err)
				continue
			}
			for _, named := range c.refused {
				if !strings.Contains(err.Error(), named) {
					t.Errorf("%s: the error lacks %q: %v", name, named, err)
				}
			}
			continue
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
	}
}

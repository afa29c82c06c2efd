package attachment

import (
	"slices"
	"strings"
	"testing"
)

func TestLend(t *testing.T) {
	network := func(name, pool string) Network {
		return Network{Ref: NetworkRef{Namespace: "a", Name: name}, ResourceName: pool}
	}
	device := func(pool, id string) Lent {
		return Lent{ResourceName: pool, ID: id, Claim: "claim", Driver: "sriov.example.com", Device: "dev-" + id}
	}
	left, right, other := network("left", "x/vf"), network("right", "x/vf"), network("other", "x/sf")
	for _, tc := range []struct {
		name     string
		networks []Network
		devices  []Lent
		want     []string
		refused  string
	}{
		{"one for one", []Network{left}, []Lent{device("x/vf", "2")}, []string{"2"}, ""},
		{"by their IDs, as Multus", []Network{right, left}, []Lent{device("x/vf", "2"), device("x/vf", "1")}, []string{"1", "2"}, ""},
		{"of two pools", []Network{other, left}, []Lent{device("x/vf", "1"), device("x/sf", "9")}, []string{"9", "1"}, ""},
		{"a device of a pool that no network draws from", []Network{left}, []Lent{device("x/vf", "1"), device("x/sf", "9")}, []string{"1"}, ""},
		{"none", []Network{left}, nil, nil, "network a/left draws from resource pool x/vf, and the pod's claims have no device of it"},
		{"none of its pool", []Network{left}, []Lent{device("x/sf", "9")}, nil, "have no device of it"},
		{"used by another network", []Network{left, right}, []Lent{device("x/vf", "1")}, nil, "only 1 (device dev-1 of driver sriov.example.com, by ResourceClaim claim), which another network uses"},
		{"ambiguous", []Network{left}, []Lent{device("x/vf", "1"), device("x/vf", "2")}, nil, "is ambiguous"},
		{"allocated twice", []Network{left, right}, []Lent{device("x/vf", "1"), device("x/vf", "1")}, nil, "was allocated to the pod twice"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Lend(tc.networks, tc.devices)
			var ids []string
			for _, d := range got {
				ids = append(ids, d.ID)
			}
			if !slices.Equal(ids, tc.want) || (err == nil) != (tc.refused == "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("got %v, %v; want %v, %q", ids, err, tc.want, tc.refused)
			}
		})
	}
}

package attachment

import (
	"slices"
	"testing"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

func TestAssignOtherDevices(t *testing.T) {
	network := func(name, pool string) Network {
		return Network{Ref: NetworkRef{Namespace: "a", Name: name}, ResourceName: pool}
	}
	device := func(pool, id string) OtherDriverDevice {
		return OtherDriverDevice{ResourceName: pool, ID: id, Claim: "claim", Driver: "sriov.example.com", Device: "dev-" + id}
	}
	share := device("x/vf", "1")
	share.ShareID = "share-1"
	admin := device("x/vf", "7")
	admin.AdminAccess = true
	left, right, other := network("left", "x/vf"), network("right", "x/vf"), network("other", "x/sf")
	for _, tc := range []struct {
		name     string
		networks []Network
		devices  []OtherDriverDevice
		want     []string
		refused  string
	}{
		{"one for one", []Network{left}, []OtherDriverDevice{device("x/vf", "2")}, []string{"2"}, ""},
		{"by their IDs, as Multus", []Network{right, left}, []OtherDriverDevice{device("x/vf", "2"), device("x/vf", "1")}, []string{"1", "2"}, ""},
		{"of two pools", []Network{other, left}, []OtherDriverDevice{device("x/vf", "1"), device("x/sf", "9")}, []string{"9", "1"}, ""},
		{"a device of a pool that no network draws from", []Network{left}, []OtherDriverDevice{device("x/vf", "1"), device("x/sf", "9")}, []string{"1"}, ""},
		{"none", []Network{left}, nil, nil, "network a/left … pool x/vf … k8s.cni.cncf.io/resourceName=x/vf … k8s.cni.cncf.io/deviceID"},
		{"none of its pool", []Network{left}, []OtherDriverDevice{device("x/sf", "9")}, nil, "network a/left … pool x/vf"},
		{"used by another network", []Network{left, right}, []OtherDriverDevice{device("x/vf", "1")}, nil, "networks a/left, a/right … only 1 (device dev-1 of driver sriov.example.com, by ResourceClaim claim) … 2 devices"},
		{"ambiguous", []Network{left}, []OtherDriverDevice{device("x/vf", "1"), device("x/vf", "2")}, nil, "network a/left … pool x/vf … 1 (device dev-1 … and 2 (device dev-2 … ambiguous"},
		{"a share", []Network{left}, []OtherDriverDevice{share}, nil, "pool x/vf: … share (share-1) of device 1 … whole"},
		{"beside one for administration", []Network{left}, []OtherDriverDevice{admin, device("x/vf", "8")}, []string{"8"}, ""},
		{"for administration only", []Network{left}, []OtherDriverDevice{admin}, nil, "network a/left … pool x/vf … adminAccess to 7 (device dev-7"},
		{"one of two for administration only", []Network{left, right}, []OtherDriverDevice{admin, device("x/vf", "8")}, nil, "networks a/left, a/right … adminAccess to 7"},
		{"allocated twice", []Network{left, right}, []OtherDriverDevice{device("x/vf", "1"), device("x/vf", "1")}, nil, "pool x/vf: device 1 (device dev-1 … twice"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := AssignOtherDevices(tc.networks, tc.devices)
			var ids []string
			for _, d := range got {
				ids = append(ids, d.ID)
			}
			if !slices.Equal(ids, tc.want) || (err == nil) != (tc.refused == "") {
				t.Errorf("got %v, %v; want %v, %q", ids, err, tc.want, tc.refused)
			}
			if tc.refused != "" {
				checkRefused(t, err, reason.DeviceMismatch, tc.refused)
			}
		})
	}
}

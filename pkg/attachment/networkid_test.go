package attachment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestNetworkID pins an ID: classes in clusters and in manifests contain it.
func TestNetworkID(t *testing.T) {
	id := NetworkIDOf(ref("default", "blue"))
	if want := NetworkID("cU%;)*"); id != want {
		t.Errorf("ID %s, want %s", id, want)
	}
	want := `device.driver == "net.nadra.dev" && "n_c" in device.attributes["net.nadra.dev"] && device.attributes["net.nadra.dev"].n_c.contains("U%;)*")`
	if diff := cmp.Diff(want, id.Selector()); diff != "" {
		t.Errorf("selector (-want +got):\n%s", diff)
	}
}

// TestNetworkIDsInAttributes checks that a device lists as many IDs as the API allows, and that each is
// found again by the rule of the selector and by NetworkIDs.
func TestNetworkIDsInAttributes(t *testing.T) {
	attributes := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"master": {StringValue: new(string)}}
	var in, out []NetworkID
	for i := range 400 {
		id := NetworkIDOf(ref("default", fmt.Sprint("net", i)))
		if i%40 == 0 {
			id = LongNetworkIDOf(ref("default", fmt.Sprint("net", i)))
		}
		if id.AddTo(attributes) {
			in = append(in, id)
		} else {
			out = append(out, id)
		}
	}
	if len(out) == 0 || len(in) < resourceapi.DeviceAttributeMaxValueLength/markLength*idLetters*2/3 {
		t.Errorf("%d IDs have room, %d have not", len(in), len(out))
	}
	for name, a := range attributes {
		if len(*a.StringValue) > resourceapi.DeviceAttributeMaxValueLength {
			t.Errorf("%s has %d bytes", name, len(*a.StringValue))
		}
	}
	if len(attributes) > 1+idLetters {
		t.Errorf("%d attributes", len(attributes))
	}
	selected := func(id NetworkID) bool {
		a, found := attributes[id.Attribute()]
		return found && strings.Contains(*a.StringValue, string(id[1:]))
	}
	listed := slices.Sorted(NetworkIDs(attributes))
	slices.Sort(in)
	if diff := cmp.Diff(in, listed); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	for _, id := range in {
		if !selected(id) {
			t.Errorf("%s is not selected", id)
		}
	}
	for _, id := range out {
		if selected(id) {
			t.Errorf("%s is selected", id)
		}
	}
}

// TestNetworkIDsDiffer checks that the networks of a large cluster have different IDs, which are evenly
// distributed over the attributes.
func TestNetworkIDsDiffer(t *testing.T) {
	seen, of := map[NetworkID]bool{}, map[resourceapi.QualifiedName]int{}
	for i := range 5_000 {
		id := NetworkIDOf(ref(fmt.Sprint("team", i%50), fmt.Sprint("net", i)))
		seen[id] = true
		of[id.Attribute()]++
	}
	if len(seen) != 5_000 || len(of) != idLetters {
		t.Errorf("%d IDs in %d attributes", len(seen), len(of))
	}
	if counts := slices.Sorted(maps.Values(of)); counts[0] < 180 || counts[len(counts)-1] > 330 {
		t.Errorf("IDs in an attribute: %v", counts)
	}
}

// equalIDs are networks with the same ID, found by trying names.
var equalIDs = []NetworkRef{ref("default", "net552030"), ref("team-evil", "n6iz")}

// TestLaterOfEqualID checks that the earlier of two networks with the same ID keeps it, in whichever order they
// are listed, and that the other one gets another ID.
func TestLaterOfEqualID(t *testing.T) {
	if a, b := NetworkIDOf(equalIDs[0]), NetworkIDOf(equalIDs[1]); a != b || LongNetworkIDOf(equalIDs[0]) == LongNetworkIDOf(equalIDs[1]) {
		t.Fatalf("IDs %s and %s; the test needs equal ones, and long ones that differ", a, b)
	}
	created := func(r NetworkRef, second int64, uid types.UID) *nadv1.NetworkAttachmentDefinition {
		n := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name, UID: uid}}
		if second > 0 {
			n.CreationTimestamp = metav1.Unix(second, 0)
		}
		return n
	}
	other := created(ref("default", "blue"), 1, "z")
	for name, tt := range map[string]struct {
		first, second *nadv1.NetworkAttachmentDefinition
		later         int
	}{
		"by creation":               {created(equalIDs[0], 5, "b"), created(equalIDs[1], 6, "a"), 1},
		"by creation, the other":    {created(equalIDs[0], 6, "a"), created(equalIDs[1], 5, "b"), 0},
		"by UID in the same second": {created(equalIDs[0], 5, "b"), created(equalIDs[1], 5, "a"), 0},
		"by name in a manifest":     {created(equalIDs[0], 0, ""), created(equalIDs[1], 0, ""), 1},
	} {
		want := map[NetworkRef]NetworkRef{equalIDs[tt.later]: equalIDs[1-tt.later]}
		for _, nads := range [][]*nadv1.NetworkAttachmentDefinition{{tt.first, tt.second, other}, {other, tt.second, tt.first}} {
			if diff := cmp.Diff(want, LaterOfEqualID(nads)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

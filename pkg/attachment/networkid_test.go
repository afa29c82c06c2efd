package attachment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
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
		if id.AddTo(attributes) {
			in = append(in, id)
		} else {
			out = append(out, id)
		}
	}
	if len(out) == 0 || len(in) < marksPerAttribute*idLetters*2/3 {
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

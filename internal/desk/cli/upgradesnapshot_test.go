package cli

import (
	"encoding/json"
	"testing"

	"github.com/nadra-dev/nadra/internal/desk/snapshot"
)

// TestCompareSnapshots checks that a pod that has lost a network stops the move of its namespace, and one that somebody has
// taken away does not.
func TestCompareSnapshots(t *testing.T) {
	text := func(pods ...snapshot.Pod) []byte {
		t.Helper()
		out, err := json.Marshal(snapshot.Snapshot{APIVersion: snapshot.APIVersion, Kind: snapshot.Kind, Pods: pods, Networks: []snapshot.Network{{Namespace: "shop", Name: "lan"}}})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	pod := func(name string, interfaces ...snapshot.Interface) snapshot.Pod {
		return snapshot.Pod{Namespace: "shop", Name: name, Interfaces: interfaces}
	}
	lan := snapshot.Interface{Network: "shop/lan", Name: "net1"}
	before := text(pod("a", lan), pod("b", lan))
	if err := compareSnapshots(before, text(pod("a", lan))); err != nil {
		t.Errorf("without pod b: %v", err)
	}
	if err := compareSnapshots(before, text(pod("a", lan), pod("b"))); err == nil {
		t.Error("pod b has lost its network")
	}
}

package driver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/record"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/events"
	"github.com/nadra-dev/nadra/pkg/driver/internal/publish"
	"github.com/nadra-dev/nadra/test/drivertest"
)

func TestAddedMessage(t *testing.T) {
	if got, want := addedMessage(drivertest.Attached("net1", drivertest.BridgeResult)), "Add net1 [10.1.0.5/24 fd00::5/64] from default/blue"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestManyNetworksAreOneEvent checks that networks with the same reason have one event, on the Node, if they are many, and
// that others keep theirs: the queue of events is short.
func TestManyNetworksAreOneEvent(t *testing.T) {
	lost := reason.Errorf(reason.MasterMissing, "bond0 is gone")
	for name, tt := range map[string]struct {
		networks          int
		why               error
		onNode, onNetwork int
		message           string
	}{
		"few":   {maxNetworkEvents, lost, 0, maxNetworkEvents + 1, ""},
		"many":  {maxNetworkEvents + 1, lost, 1, 1, "21 networks default/n00, default/n01, default/n02 and 18 more"},
		"again": {maxNetworkEvents + 1, nil, 1, 1, "21 networks default/n00, default/n01, default/n02 and 18 more"},
	} {
		env := &environment{events: fakeEvents(t)}
		d := &Driver{parts: &parts{pods: &pods{node: &node{environment: env}}}}
		d.events.EventRecorder.(*record.FakeRecorder).IncludeObject = true
		changes := []publish.HealthChange{{Network: attachment.NetworkRef{Namespace: "default", Name: "sick"}, Why: reason.Errorf(reason.PluginUnhealthy, "no")}}
		for i := range tt.networks {
			ref := attachment.NetworkRef{Namespace: "default", Name: fmt.Sprintf("n%02d", tt.networks-1-i)}
			changes = append(changes, publish.HealthChange{Network: ref, Why: tt.why})
		}
		(&reporter{environment: env, cfg: Config{NodeName: "node-1"}}).networkHealth(t.Context(), changes)
		var onNode, onNetwork int
		for _, e := range eventsOf(t, d) {
			if !strings.Contains(e, "kind=Node,") {
				onNetwork++
			} else if onNode++; !strings.Contains(e, tt.message) || reason.Of(tt.why) != "" && !strings.Contains(e, "["+string(reason.Of(tt.why))+"]") {
				t.Errorf("%s: %s", name, e)
			}
		}
		if onNode != tt.onNode || onNetwork != tt.onNetwork {
			t.Errorf("%s: %d events on the Node and %d on networks, want %d and %d", name, onNode, onNetwork, tt.onNode, tt.onNetwork)
		}
	}
}

// TestAddedMessages checks that an event lists as many networks as it has room for, each whole, and counts the others.
func TestAddedMessages(t *testing.T) {
	for networks, want := range map[int]string{1: "", 3: "", 40: "; 24 more", 64: "; 48 more"} {
		var all []string
		for i := range networks {
			all = append(all, fmt.Sprintf("Add net%02d [10.1.0.5/24 fd00::5/64] from %s", i, strings.Repeat("x", 20)))
		}
		got := addedMessages(all)
		listed := strings.Split(strings.TrimSuffix(got, want), "; ")
		if len(got) > events.MaxMessage || !strings.HasSuffix(got, want) || !slices.Equal(listed, all[:len(listed)]) || want == "" && len(listed) != networks {
			t.Errorf("%d networks: %d bytes, %q", networks, len(got), got)
		}
	}
}

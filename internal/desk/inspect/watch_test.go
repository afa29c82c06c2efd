package inspect

import (
	"strings"
	"testing"
)

// TestWatchLeavesOutWhatMayNotBeRead checks that no informer exists for such a kind, and for one that is not served: it would
// list it for ever.
func TestWatchLeavesOutWhatMayNotBeRead(t *testing.T) {
	c, _ := cluster(pod("web"))
	v := c.newView(Input{Unread: map[Kind]bool{Slices: true, Classes: true}, unserved: []Kind{Networks}})
	if err := v.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	started := v.rest.WaitForCacheSync(t.Context().Done())
	for kind := range started {
		if name := kind.String(); strings.Contains(name, "ResourceSlice") || strings.Contains(name, "DeviceClass") {
			t.Errorf("the view watches %s", name)
		}
	}
	if networks := v.networks.WaitForCacheSync(t.Context().Done()); len(networks) > 0 || len(started) != 3 {
		t.Errorf("the view watches %v and %v, want pods, claims and templates", started, networks)
	}
}

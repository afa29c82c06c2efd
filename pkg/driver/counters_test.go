package driver

import (
	"fmt"
	"testing"

	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// What a pod costs in things that do not depend on the clock: writes that are
// synced to disk, plugin chains, looks into its namespace. Whoever raises one
// has every pod of the node wait for it (docs/performance.md).
func TestCostOfAPod(t *testing.T) {
	for _, tt := range []struct {
		claims, networks          int
		attachWrites, attachLooks uint64
		detachWrites, detachLooks uint64
	}{
		{claims: 1, networks: 1, attachWrites: 2, attachLooks: 1, detachWrites: 1, detachLooks: 1},
		{claims: 1, networks: 8, attachWrites: 2, attachLooks: 1, detachWrites: 1, detachLooks: 8},
		{claims: 3, networks: 6, attachWrites: 6, attachLooks: 1, detachWrites: 3, detachLooks: 6},
	} {
		t.Run(fmt.Sprintf("%d networks in %d claims", tt.networks, tt.claims), func(t *testing.T) {
			a, k := newAttacher(t)
			looks := uint64(0)
			look := a.look
			a.look = func(netns string) (namespace, error) { looks++; return look(netns) }
			groups := make([][]string, tt.claims)
			for i := range tt.networks {
				c := i * tt.claims / tt.networks
				groups[c] = append(groups[c], fmt.Sprintf("net%d", i+1))
			}
			prepareWeb(t, a.store, groups...)
			cost := func(what string, wantWrites, wantLooks uint64, wantPlugins int, do func() error) {
				t.Helper()
				writes := a.store.Writes()
				looks, k.calls = 0, nil
				if err := do(); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				same(t, "writes of "+what, wantWrites, a.store.Writes()-writes)
				same(t, "looks of "+what, wantLooks, looks)
				same(t, "plugin chains of "+what, wantPlugins, len(k.calls))
			}
			all := func(checkpoint.Record) bool { return true }
			cost("attaching", tt.attachWrites, tt.attachLooks, tt.networks, func() error { return k.attachOnce(t, a, sandboxNo(1)) })
			cost("a repeated hook", 0, 0, 0, func() error { return k.attachOnce(t, a, sandboxNo(1)) })
			cost("detaching", tt.detachWrites, tt.detachLooks, tt.networks, func() error { return a.detach(t.Context(), web.UID, all) })
			cost("a repeated stop", 0, 0, 0, func() error { return a.detach(t.Context(), web.UID, all) })
		})
	}
}

// An attempt that fails half way keeps what it has made, and writes that once.
func TestCostOfAnAttemptThatFails(t *testing.T) {
	a, k := newAttacher(t)
	prepareWeb(t, a.store, []string{"net1", "net2", "net3", "net4"})
	k.fail["ADD net3"] = final("no free address")
	if err := a.attempt(t.Context(), sandboxNo(1)); err == nil {
		t.Fatal("the attempt has succeeded")
	}
	same(t, "phases", map[string]checkpoint.Phase{
		"net1": checkpoint.Attached, "net2": checkpoint.Attached, "net3": checkpoint.Attaching, "net4": checkpoint.Prepared,
	}, phases(a.store))
}

package nodecmd

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/internal/probe"
)

const (
	dir  = "/var/lib/cni/networks/blue"
	old  = time.Hour
	none = "00aa"
)

func address(text string) netip.Addr { return netip.MustParseAddr(text) }

// blueLease returns an orphan for the policy of TestDecide.
func blueLease() lease {
	return lease{File: dir + "/10.0.0.5", Dir: dir, ID: none, IfName: "net1", Address: address("10.0.0.5"), Age: old}
}

// attachedNetwork returns an orphan.
func attachedNetwork() cacheEntry {
	return cacheEntry{Owner: ownerMultus, File: "/c/blue-00aa-net1", Network: "blue", ID: none, IfName: "net1", Age: old}
}

// decided returns the actions of decide by object.
func decided(f nodeFacts, p CleanupOptions) (map[string]probe.Action, int) {
	orphans, kept := decide(f, p)
	out := map[string]probe.Action{}
	for _, o := range orphans {
		out[o.Object] = o.Action
	}
	return out, kept
}

func TestDecide(t *testing.T) {
	policy := CleanupOptions{OlderThan: 10 * time.Minute, NetworkDirs: []string{dir}}
	all := policy
	all.AllCNI = true
	foreign := policy
	foreign.NetworkDirs = nil
	file, entry, noted := blueLease().File, attachedNetwork().File, "/m/00aa"
	for name, tt := range map[string]struct {
		policy CleanupOptions
		change func(*nodeFacts)
		want   map[string]probe.Action
		kept   int
	}{
		"an orphan":                    {policy, func(*nodeFacts) {}, map[string]probe.Action{file: probe.ActionRelease, entry: probe.ActionDEL, noted: probe.ActionDelete}, 0},
		"the runtime has the sandbox":  {policy, func(f *nodeFacts) { f.Sandboxes[none] = true }, map[string]probe.Action{}, 0},
		"the checkpoint has a record":  {policy, func(f *nodeFacts) { f.Held[none] = true }, map[string]probe.Action{}, 3},
		"its network namespace exists": {policy, func(f *nodeFacts) { f.Attachments[0].NetNS = true }, map[string]probe.Action{}, 3},
		"another attachment's network namespace exists": {policy, func(f *nodeFacts) {
			f.Attachments = append(f.Attachments, cacheEntry{Owner: ownerRuntime, File: "/r/x", Network: "default", ID: none, IfName: "eth0", NetNS: true, Age: old})
		}, map[string]probe.Action{}, 4},
		"the address is in use":   {policy, func(f *nodeFacts) { f.InUse[address("10.0.0.5")] = true }, map[string]probe.Action{entry: probe.ActionDEL, noted: probe.ActionDelete}, 1},
		"addresses are not known": {policy, func(f *nodeFacts) { f.Incomplete = "a namespace is locked" }, map[string]probe.Action{file: probe.ActionNone, entry: probe.ActionDEL, noted: probe.ActionDelete}, 0},
		"everything is young": {policy, func(f *nodeFacts) {
			f.Leases[0].Age, f.Attachments[0].Age, f.Notes[0].Age = time.Minute, time.Minute, time.Minute
		}, map[string]probe.Action{}, 3},
		"an empty lease": {policy, func(f *nodeFacts) { f.Leases[0].ID = "" }, map[string]probe.Action{file: probe.ActionRelease, entry: probe.ActionDEL, noted: probe.ActionDelete}, 0},
		"a lease that is being made": {policy, func(f *nodeFacts) {
			f.Leases[0].ID, f.Leases[0].Age = "", time.Second
		}, map[string]probe.Action{entry: probe.ActionDEL, noted: probe.ActionDelete}, 0},
		"an empty lease, in use": {policy, func(f *nodeFacts) {
			f.Leases[0].ID, f.InUse[address("10.0.0.5")] = "", true
		}, map[string]probe.Action{entry: probe.ActionDEL, noted: probe.ActionDelete}, 1},
		"nadra's, while its driver runs": {policy, func(f *nodeFacts) {
			f.Attachments[0].Owner, f.DriverRuns = ownerNadra, true
		}, map[string]probe.Action{file: probe.ActionRelease, entry: probe.ActionNone, noted: probe.ActionDelete}, 0},
		"nadra's, and no driver":             {policy, func(f *nodeFacts) { f.Attachments[0].Owner = ownerNadra }, map[string]probe.Action{file: probe.ActionRelease, entry: probe.ActionDEL, noted: probe.ActionDelete}, 0},
		"the runtime's":                      {policy, func(f *nodeFacts) { f.Attachments[0].Owner = ownerRuntime }, map[string]probe.Action{file: probe.ActionRelease, entry: probe.ActionNone, noted: probe.ActionDelete}, 0},
		"the runtime's, if asked for":        {all, func(f *nodeFacts) { f.Attachments[0].Owner = ownerRuntime }, map[string]probe.Action{file: probe.ActionRelease, entry: probe.ActionDEL, noted: probe.ActionDelete}, 0},
		"Multus' default network":            {policy, func(f *nodeFacts) { f.Attachments[0].IfName = "eth0" }, map[string]probe.Action{file: probe.ActionRelease, entry: probe.ActionNone, noted: probe.ActionDelete}, 0},
		"an unknown network":                 {foreign, func(f *nodeFacts) { f.Attachments = nil }, map[string]probe.Action{file: probe.ActionNone, noted: probe.ActionDelete}, 0},
		"a network that Multus has attached": {foreign, func(*nodeFacts) {}, map[string]probe.Action{file: probe.ActionRelease, entry: probe.ActionDEL, noted: probe.ActionDelete}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := nodeFacts{
				Attachments: []cacheEntry{attachedNetwork()}, Leases: []lease{blueLease()}, Notes: []note{{File: noted, ID: none, Age: old}},
				Held: map[string]bool{}, InUse: map[netip.Addr]bool{}, Sandboxes: map[string]bool{},
			}
			tt.change(&f)
			got, kept := decided(f, tt.policy)
			if diff := cmp.Diff(tt.want, got); diff != "" || kept != tt.kept {
				t.Errorf("%d kept, want %d; (-want +got):\n%s", kept, tt.kept, diff)
			}
		})
	}
}

func TestFunctions(t *testing.T) {
	vf := probe.VF{PCI: "0000:01:10.0", PF: "ens1", Index: 2, MAC: "02:00:00:00:00:01", LinkState: "auto"}
	set := vf
	set.VLAN, set.MaxRate, set.LinkState = 7, 100, "enable"
	of := func(id string) []cacheEntry {
		return []cacheEntry{{Owner: ownerRuntime, File: "/r/x", ID: id, Device: set.PCI, IfName: "net1", Age: time.Second}}
	}
	for name, tt := range map[string]struct {
		f    nodeFacts
		want string
	}{
		"a hardware address alone":       {nodeFacts{VFs: []probe.VF{vf}}, ""},
		"settings without a user":        {nodeFacts{VFs: []probe.VF{set}}, "vlan 7, min_tx_rate 0 max_tx_rate 100, state enable,"},
		"held by a record":               {nodeFacts{VFs: []probe.VF{set}, HeldVFs: map[string]bool{set.PCI: true}}, ""},
		"held by a sandbox":              {nodeFacts{VFs: []probe.VF{set}, Attachments: of("1"), Sandboxes: map[string]bool{"1": true}}, ""},
		"of a sandbox that is not there": {nodeFacts{VFs: []probe.VF{set}, Attachments: of("1")}, "vlan 7"},
	} {
		t.Run(name, func(t *testing.T) {
			orphans, _ := decide(tt.f, CleanupOptions{OlderThan: time.Minute})
			if tt.want == "" {
				if len(orphans) > 0 {
					t.Errorf("%+v", orphans)
				}
				return
			}
			if len(orphans) != 1 || orphans[0].Action != probe.ActionNone || !strings.Contains(orphans[0].Why, tt.want) {
				t.Errorf("%+v", orphans)
			}
		})
	}
}

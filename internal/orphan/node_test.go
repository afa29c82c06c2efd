package orphan

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

// lease returns an orphan for the policy of TestDecide.
func lease() Lease {
	return Lease{File: dir + "/10.0.0.5", Dir: dir, ID: none, IfName: "net1", Address: address("10.0.0.5"), Age: old}
}

// attachedNetwork returns an orphan.
func attachedNetwork() Attachment {
	return Attachment{Owner: Multus, File: "/c/blue-00aa-net1", Network: "blue", ID: none, IfName: "net1", Age: old}
}

// decided returns the actions of Decide by object.
func decided(f NodeFacts, p NodePolicy) (map[string]Action, int) {
	orphans, kept := Decide(f, p)
	out := map[string]Action{}
	for _, o := range orphans {
		out[o.Object] = o.Action
	}
	return out, kept
}

func TestDecide(t *testing.T) {
	policy := NodePolicy{OlderThan: 10 * time.Minute, Dirs: []string{dir}}
	all := policy
	all.AllCNI = true
	foreign := policy
	foreign.Dirs = nil
	file, entry, note := lease().File, attachedNetwork().File, "/m/00aa"
	for name, tt := range map[string]struct {
		policy NodePolicy
		change func(*NodeFacts)
		want   map[string]Action
		kept   int
	}{
		"an orphan":                    {policy, func(*NodeFacts) {}, map[string]Action{file: Release, entry: DEL, note: Delete}, 0},
		"the runtime has the sandbox":  {policy, func(f *NodeFacts) { f.Sandboxes[none] = true }, map[string]Action{}, 0},
		"the checkpoint has a record":  {policy, func(f *NodeFacts) { f.Held[none] = true }, map[string]Action{}, 3},
		"its network namespace exists": {policy, func(f *NodeFacts) { f.Attachments[0].NetNS = true }, map[string]Action{}, 3},
		"another attachment's network namespace exists": {policy, func(f *NodeFacts) {
			f.Attachments = append(f.Attachments, Attachment{Owner: Runtime, File: "/r/x", Network: "default", ID: none, IfName: "eth0", NetNS: true, Age: old})
		}, map[string]Action{}, 4},
		"the address is in use":   {policy, func(f *NodeFacts) { f.InUse[address("10.0.0.5")] = true }, map[string]Action{entry: DEL, note: Delete}, 1},
		"addresses are not known": {policy, func(f *NodeFacts) { f.Incomplete = "a namespace is locked" }, map[string]Action{file: None, entry: DEL, note: Delete}, 0},
		"everything is young": {policy, func(f *NodeFacts) {
			f.Leases[0].Age, f.Attachments[0].Age, f.Notes[0].Age = time.Minute, time.Minute, time.Minute
		}, map[string]Action{}, 3},
		"an empty lease": {policy, func(f *NodeFacts) { f.Leases[0].ID = "" }, map[string]Action{file: Release, entry: DEL, note: Delete}, 0},
		"a lease that is being made": {policy, func(f *NodeFacts) {
			f.Leases[0].ID, f.Leases[0].Age = "", time.Second
		}, map[string]Action{entry: DEL, note: Delete}, 0},
		"an empty lease, in use": {policy, func(f *NodeFacts) {
			f.Leases[0].ID, f.InUse[address("10.0.0.5")] = "", true
		}, map[string]Action{entry: DEL, note: Delete}, 1},
		"nadra's, while its driver runs": {policy, func(f *NodeFacts) {
			f.Attachments[0].Owner, f.DriverRuns = Nadra, true
		}, map[string]Action{file: Release, entry: None, note: Delete}, 0},
		"nadra's, and no driver":             {policy, func(f *NodeFacts) { f.Attachments[0].Owner = Nadra }, map[string]Action{file: Release, entry: DEL, note: Delete}, 0},
		"the runtime's":                      {policy, func(f *NodeFacts) { f.Attachments[0].Owner = Runtime }, map[string]Action{file: Release, entry: None, note: Delete}, 0},
		"the runtime's, if asked for":        {all, func(f *NodeFacts) { f.Attachments[0].Owner = Runtime }, map[string]Action{file: Release, entry: DEL, note: Delete}, 0},
		"Multus' default network":            {policy, func(f *NodeFacts) { f.Attachments[0].IfName = "eth0" }, map[string]Action{file: Release, entry: None, note: Delete}, 0},
		"an unknown network":                 {foreign, func(f *NodeFacts) { f.Attachments = nil }, map[string]Action{file: None, note: Delete}, 0},
		"a network that Multus has attached": {foreign, func(*NodeFacts) {}, map[string]Action{file: Release, entry: DEL, note: Delete}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := NodeFacts{
				Attachments: []Attachment{attachedNetwork()}, Leases: []Lease{lease()}, Notes: []Note{{File: note, ID: none, Age: old}},
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
	of := func(id string) []Attachment {
		return []Attachment{{Owner: Runtime, File: "/r/x", ID: id, Device: set.PCI, IfName: "net1", Age: time.Second}}
	}
	for name, tt := range map[string]struct {
		f    NodeFacts
		want string
	}{
		"a hardware address alone":       {NodeFacts{VFs: []probe.VF{vf}}, ""},
		"settings without a user":        {NodeFacts{VFs: []probe.VF{set}}, "vlan 7, min_tx_rate 0 max_tx_rate 100, state enable,"},
		"held by a record":               {NodeFacts{VFs: []probe.VF{set}, HeldVFs: map[string]bool{set.PCI: true}}, ""},
		"held by a sandbox":              {NodeFacts{VFs: []probe.VF{set}, Attachments: of("1"), Sandboxes: map[string]bool{"1": true}}, ""},
		"of a sandbox that is not there": {NodeFacts{VFs: []probe.VF{set}, Attachments: of("1")}, "vlan 7"},
	} {
		t.Run(name, func(t *testing.T) {
			orphans, _ := Decide(tt.f, NodePolicy{OlderThan: time.Minute})
			if tt.want == "" {
				if len(orphans) > 0 {
					t.Errorf("%+v", orphans)
				}
				return
			}
			if len(orphans) != 1 || orphans[0].Action != None || !strings.Contains(orphans[0].Why, tt.want) {
				t.Errorf("%+v", orphans)
			}
		})
	}
}

package offer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// nodeWith returns a node that has these interfaces and all programs but those of absent.
func nodeWith(absent string, links ...string) Host {
	return Host{
		HasLink: func(name string) bool { return slices.Contains(links, name) },
		HasPool: func(pool string) bool { return pool == "vendor.com/fast" },
		Missing: func(d *Definition) []string {
			return slices.DeleteFunc(slices.Clone(d.Plugins), func(p string) bool { return p != absent })
		},
	}
}

func refs(networks []*Definition) []string {
	var out []string
	for _, d := range networks {
		out = append(out, d.Network.Ref.Name)
	}
	slices.Sort(out)
	return out
}

// TestShared checks that the facts about a node give the networks that the node itself finds usable, without those
// that are its own.
func TestShared(t *testing.T) {
	networks := defined(t, map[string]string{
		"bridge": drivertest.RedConf, "here": macvlanOn("ens1"), "elsewhere": macvlanOn("ens9"), "aligned": macvlanOn("ens1"),
		"tiny": `{"cniVersion":"1.0.0","type":"bridge","ipam":{"type":"host-local","subnet":"10.0.0.0/28"}}`, "absent": `{"cniVersion":"1.0.0","type":"ipvlan","master":"ens1"}`,
	})
	host := nodeWith("ipvlan", "ens1")
	facts, _ := FactsOf(networks, host, func(*Definition) Health { return Unasked }, podsOfNode)
	drivertest.Same(t, "shared networks", []string{"bridge", "here"}, refs(facts.Shared(networks)))
	for _, d := range networks {
		drivertest.Same(t, d.Network.Ref.Name+": the facts' answer", host.Check(d) == nil, facts.host().Check(d) == nil)
	}
	text, profile, err := facts.Text()
	if err != nil {
		t.Fatal(err)
	}
	read, err := ReadFacts(text, profile)
	drivertest.Same(t, "error", nil, err)
	drivertest.Same(t, "facts", facts, read)
}

// profileFor returns the profile of a node with these interfaces.
func profileFor(t *testing.T, networks []*Definition, links ...string) string {
	t.Helper()
	facts, _ := FactsOf(networks, nodeWith("", links...), func(*Definition) Health { return Healthy }, podsOfNode)
	_, profile, err := facts.Text()
	if err != nil {
		t.Fatal(err)
	}
	return profile
}

// TestFactsAreTheSame checks that neither the order of NADs nor what no NAD names makes another profile.
func TestFactsAreTheSame(t *testing.T) {
	networks := defined(t, map[string]string{"a": macvlanOn("ens1"), "b": macvlanOn("ens2"), "c": drivertest.RedConf})
	before := profileFor(t, networks, "ens1", "ens2")
	slices.Reverse(networks)
	after := profileFor(t, networks, "ens1", "ens2", "veth7", "cni0")
	drivertest.Same(t, "profile", before, after)
	other := profileFor(t, networks, "ens1")
	if other == before {
		t.Error("a node without an interface has the same profile")
	}
}

// TestSickness checks what facts say of plugins that answer with an error, and that no tenant makes them long.
func TestSickness(t *testing.T) {
	configs := map[string]string{}
	for i := range 100 {
		configs[fmt.Sprint("ovs", i)] = `{"cniVersion":"1.1.0","type":"ovs"}`
		configs[fmt.Sprint("bridge", i)] = `{"cniVersion":"1.1.0","type":"bridge"}`
	}
	configs["alone"] = `{"cniVersion":"1.1.0","type":"alone"}`
	networks := defined(t, configs)
	facts, _ := FactsOf(networks, nodeWith(""), func(d *Definition) Health {
		if d.Network.Ref.Name == "bridge0" {
			return Healthy
		}
		return Unhealthy
	}, podsOfNode)
	drivertest.Same(t, "chains", []string{"ovs"}, facts.Failing)
	drivertest.Same(t, "networks", []string{"default/alone", "default/bridge1"}, facts.Unhealthy)
	of := func(d *Definition) Health {
		if d.Network.Ref.Name == "ovs0" || d.Network.Ref.Name == "ovs1" {
			return Unhealthy
		}
		return Unasked
	}
	withOld := append(defined(t, map[string]string{"old": `{"cniVersion":"1.0.0","type":"ovs"}`}), networks...)
	two, _ := FactsOf(withOld, nodeWith(""), of, podsOfNode)
	drivertest.Same(t, "chains of which most networks have no answer", []string{"ovs"}, two.Failing)
	offered := refs(two.Shared(withOld))
	if !slices.Contains(offered, "old") || slices.Contains(offered, "ovs2") {
		t.Errorf("of a failing chain, these are offered: %v", offered)
	}
	shared := refs(facts.Shared(networks))
	if len(shared) != 99 || slices.ContainsFunc(shared, func(name string) bool { return !strings.HasPrefix(name, "bridge") || name == "bridge1" }) {
		t.Errorf("shared networks: %v", shared)
	}
}

// TestReadFacts checks which texts of a Node the controller refuses.
func TestReadFacts(t *testing.T) {
	of := func(text string) string { return profileOf([]byte(text)) }
	long := `{"version":1,"masters":["` + strings.Repeat("x", maxFacts) + `"]}`
	for name, tt := range map[string]struct{ text, profile string }{
		"those of another profile": {`{"version":1,"pods":110}`, of(`{"version":1,"pods":111}`)},
		"too many":                 {long, of(long)},
		"no JSON":                  {"{", of("{")},
		"a later version":          {`{"version":2,"pods":110}`, of(`{"version":2,"pods":110}`)},
		"none":                     {"", ""},
	} {
		if _, err := ReadFacts(tt.text, tt.profile); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestLeft checks what is left of a node's facts when it loses something, and when nothing asks for it any more.
func TestLeft(t *testing.T) {
	all := Facts{Version: 1, Masters: []string{"a", "b"}, Plugins: []string{"p"}, Pools: []string{"q"}, Unhealthy: []string{"n/x"}, Pods: 110}
	for name, tt := range map[string]struct {
		now, asked, want func(*Facts)
	}{
		"an interface":              {now: func(f *Facts) { f.Masters = []string{"a"} }, want: func(f *Facts) { f.Masters = []string{"a"} }},
		"another interface":         {now: func(f *Facts) { f.Masters = []string{"a", "c"} }, want: func(f *Facts) { f.Masters = []string{"a"} }},
		"one more":                  {now: func(f *Facts) { f.Masters = []string{"a", "b", "c"} }},
		"one that nothing asks for": {now: func(f *Facts) { f.Masters = []string{"a"} }, asked: func(f *Facts) { f.Masters = []string{"a"} }},
		"a plugin":                  {now: func(f *Facts) { f.Plugins = nil }, want: func(f *Facts) { f.Plugins = []string{} }},
		"a pool":                    {now: func(f *Facts) { f.Pools = nil }, want: func(f *Facts) { f.Pools = []string{} }},
		"a healthy network":         {now: func(f *Facts) { f.Unhealthy = []string{"n/x", "n/y"} }},
		"a chain":                   {now: func(f *Facts) { f.Failing = []string{"ovs"} }},
		"room for pods":             {now: func(f *Facts) { f.Pods = 250 }, want: func(f *Facts) { f.Pods = 250 }},
	} {
		now, asked, want := all, all, all
		tt.now(&now)
		if tt.asked != nil {
			tt.asked(&asked)
		}
		if tt.want != nil {
			tt.want(&want)
		}
		if left := all.Left(now, asked); !left.Equal(want) {
			t.Errorf("%s: %+v is left, want %+v", name, left, want)
		}
	}
}

// TestSharedSlices checks the slices of a profile.
func TestSharedSlices(t *testing.T) {
	made := (*Offer)(nil).Of(Arrangement{Networks: many(t, 1_000), Pods: podsOfNode}, Options{}).Shared("0123456789abcdef")
	names, listed := map[string]bool{}, 0
	for _, s := range made {
		names[s.Spec.Pool.Name] = true
		for _, d := range s.Spec.Devices {
			for range attachment.NetworkIDs(d.Attributes) {
				listed++
			}
		}
		if s.Spec.NodeName != nil || s.Spec.Pool.ResourceSliceCount != 1 || s.Spec.NodeSelector.NodeSelectorTerms[0].MatchExpressions[0].Values[0] != "0123456789abcdef" || s.Size() > 13<<10 {
			t.Errorf("slice %s of %d bytes: %+v", s.Name, s.Size(), s.Spec)
		}
	}
	drivertest.Same(t, "pools", len(made), len(names))
	drivertest.Same(t, "networks", 1_000, listed)
	drivertest.Same(t, "slices without a network", 0, len((*Offer)(nil).Of(Arrangement{Networks: nil, Pods: podsOfNode}, Options{}).Shared("0123456789abcdef")))
}

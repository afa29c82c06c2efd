package offer

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// factsVersion is that of the rules by which facts become an offer. A controller makes no slices for facts of
// another version, and their nodes publish slices of their own.
const factsVersion = 1

const (
	// maxFacts limits the text of facts, in bytes. A node with more has no profile.
	maxFacts = 16 << 10
	// maxUnhealthy limits the networks that facts name as unhealthy, maxInNamespace those of one namespace, and
	// maxFailing the chains: tenants choose what their plugins answer, and each answer is another profile. More
	// are offered all the same, as if their plugins had no STATUS, and fail when they are attached.
	maxUnhealthy, maxInNamespace, maxFailing = 16, 2, 8
)

// Facts are what the offer of a node depends on, besides the NADs. Nodes with equal facts have one profile.
// Names are sorted and unique.
type Facts struct {
	Version int `json:"version"`
	// Masters are the interfaces of the node that NADs name, Plugins the programs, and Pools the resource pools
	// of which other drivers have devices.
	Masters []string `json:"masters,omitempty"`
	Plugins []string `json:"plugins,omitempty"`
	Pools   []string `json:"pools,omitempty"`
	// Failing are chains, as the names of their programs, that answer STATUS with an error for all networks with
	// this verb, as those of a daemon that is away do. Unhealthy are networks of other chains, as NAMESPACE/NAME, for which
	// theirs do.
	Failing   []string `json:"failing,omitempty"`
	Unhealthy []string `json:"unhealthy,omitempty"`
	// Pods is the number of pods that the node takes.
	Pods int64 `json:"pods"`
}

// Health is what the plugins of a network answer STATUS.
type Health int

// The answers. Plugins are Unasked if their CNI version has no STATUS.
const (
	Unasked Health = iota
	Healthy
	Unhealthy
)

// FactsOf returns the facts about a node, as far as these networks ask for them, and what they ask for: all
// interfaces, programs and pools that they name.
func FactsOf(networks []*Definition, h Host, health func(*Definition) Health, pods int64) (has, asked Facts) {
	masters, plugins, pools, absent := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, d := range networks {
		for _, p := range d.Network.Plugins {
			if p.Master != "" {
				masters[p.Master] = h.HasLink(p.Master)
			}
		}
		for _, p := range h.Missing(d) {
			absent[p] = true
		}
		for _, p := range d.Plugins {
			plugins[p] = true
		}
		if pool := d.Network.ResourceName; pool != "" {
			pools[pool] = h.HasPool(pool)
		}
	}
	asked = Facts{Masters: sorted(masters), Plugins: sorted(plugins), Pools: sorted(pools)}
	not := func(_ string, found bool) bool { return !found }
	maps.DeleteFunc(masters, not)
	maps.DeleteFunc(pools, not)
	maps.DeleteFunc(plugins, func(p string, _ bool) bool { return absent[p] })
	has = Facts{Version: factsVersion, Masters: sorted(masters), Plugins: sorted(plugins), Pools: sorted(pools), Pods: pods}
	has.Failing, has.Unhealthy = sick(networks, health, pods)
	return has, asked
}

func sorted(names map[string]bool) []string { return slices.Sorted(maps.Keys(names)) }

// sick returns the chains that fail for all of their networks that have an answer, if these are several, and the other
// networks whose plugins fail.
func sick(networks []*Definition, health func(*Definition) Health, pods int64) (chains, single []string) {
	of := map[Health]map[string]int{Healthy: {}, Unhealthy: {}}
	var unhealthy []*Definition
	for _, d := range networks {
		answer := health(d)
		if answer == Unasked {
			continue
		}
		if answer == Unhealthy {
			unhealthy = append(unhealthy, d)
		}
		of[answer][d.Programs]++
	}
	failing := map[string]bool{}
	for programs, n := range of[Unhealthy] {
		failing[programs] = n > 1 && of[Healthy][programs] == 0
	}
	maps.DeleteFunc(failing, func(_ string, all bool) bool { return !all })
	chains = sorted(failing)
	chains = chains[:min(len(chains), maxFailing)]
	slices.SortFunc(unhealthy, func(a, b *Definition) int { return cmp.Compare(a.Network.Ref.String(), b.Network.Ref.String()) })
	inNamespace := map[string]int{}
	for _, d := range unhealthy {
		ref := d.Network.Ref
		if !d.shareable(pods) || slices.Contains(chains, d.Programs) {
			continue
		}
		if inNamespace[ref.Namespace]++; len(single) < maxUnhealthy && inNamespace[ref.Namespace] <= maxInNamespace {
			single = append(single, ref.String())
		}
	}
	return chains, single
}

// Text returns the facts as an annotation has them, and the profile: a hash of the text. It returns an error if
// there are too many.
func (f Facts) Text() (text, profile string, err error) {
	content, err := json.Marshal(f)
	if err != nil {
		return "", "", fmt.Errorf("writing the facts of the node: %w", err)
	}
	if len(content) > maxFacts {
		return "", "", fmt.Errorf("writing the facts of the node: they have %d bytes, and %d are allowed", len(content), maxFacts)
	}
	return string(content), profileOf(content), nil
}

func profileOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])[:profileLength]
}

// profileLength is the length of a profile: 128 bits, so that nobody finds two facts with one profile.
const profileLength = 32

// ReadFacts reads the text of a node's annotation. It refuses a text that is not that of the profile, and facts
// of another version.
func ReadFacts(text, profile string) (Facts, error) {
	var f Facts
	switch {
	case len(text) > maxFacts:
		return f, fmt.Errorf("reading facts: they have %d bytes, and %d are allowed", len(text), maxFacts)
	case profileOf([]byte(text)) != profile:
		return f, fmt.Errorf("reading facts: they are not those of profile %q", profile)
	}
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return f, fmt.Errorf("reading facts: %w", err)
	}
	if f.Version != factsVersion {
		return f, fmt.Errorf("reading facts: their version is %d, and %d is known", f.Version, factsVersion)
	}
	return f, nil
}

// host returns the node of the facts.
func (f Facts) host() Host {
	masters, plugins, pools := setOf(f.Masters), setOf(f.Plugins), setOf(f.Pools)
	return Host{
		HasLink: func(name string) bool { return masters[name] },
		HasPool: func(pool string) bool { return pools[pool] },
		Missing: func(d *Definition) []string {
			return slices.DeleteFunc(slices.Clone(d.Plugins), func(p string) bool { return plugins[p] })
		},
	}
}

func setOf(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}

// Shared returns the networks that nodes with these facts share.
func (f Facts) Shared(networks []*Definition) []*Definition {
	h, failing, unhealthy := f.host(), setOf(f.Failing), setOf(f.Unhealthy)
	var out []*Definition
	for _, d := range networks {
		sick := failing[d.Programs] && d.Network.HasStatus() || unhealthy[d.Network.Ref.String()]
		if !sick && d.shareable(f.Pods) && h.Check(d) == nil && h.CheckPool(d) == nil {
			out = append(out, d)
		}
	}
	return out
}

// Left returns what is left of facts: without what networks ask for and the node does not have now, and with room
// for its pods. What no network asks for any more stays, so that a NAD that is deleted changes no profile.
func (f Facts) Left(now, asked Facts) Facts {
	left := func(before, now, asked []string) []string {
		has, wanted := setOf(now), setOf(asked)
		return slices.DeleteFunc(slices.Clone(before), func(name string) bool { return wanted[name] && !has[name] })
	}
	f.Masters, f.Plugins, f.Pools = left(f.Masters, now.Masters, asked.Masters), left(f.Plugins, now.Plugins, asked.Plugins), left(f.Pools, now.Pools, asked.Pools)
	f.Pods = max(f.Pods, now.Pods)
	return f
}

// Equal reports whether facts are the same.
func (f Facts) Equal(other Facts) bool {
	return f.EqualHealth(other) && f.Version == other.Version && f.Pods == other.Pods && slices.Equal(f.Masters, other.Masters) &&
		slices.Equal(f.Plugins, other.Plugins) && slices.Equal(f.Pools, other.Pools)
}

// EqualHealth reports whether plugins answer STATUS the same.
func (f Facts) EqualHealth(other Facts) bool {
	return slices.Equal(f.Failing, other.Failing) && slices.Equal(f.Unhealthy, other.Unhealthy)
}

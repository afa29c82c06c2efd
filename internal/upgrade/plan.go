package upgrade

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// Plan is what is to be done, in order. A person reviews it, and may edit the
// waves; what it says of pods is what was so when it was made.
type Plan struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Source is the cluster that it was made for.
	Source string `json:"source,omitempty"`
	// DomainLabel is the node label whose values are failure domains.
	DomainLabel string `json:"domainLabel,omitempty"`
	// Multus are the DaemonSets that are kept off nadra's nodes.
	Multus []MultusRef `json:"multus"`
	Waves  []Wave      `json:"waves"`
	// Left are nodes that stay with Multus, with why.
	Left []LeftNode `json:"left,omitempty"`
	// Stays are workloads that stay with Multus, with why.
	Stays []StayingWorkload `json:"stays,omitempty"`
	// Problems are what is in the way, and what to know.
	Problems []Problem `json:"problems,omitempty"`
	Summary  Summary   `json:"summary"`
}

// MultusRef names a DaemonSet.
type MultusRef struct {
	Namespace string `json:"namespace"`
	DaemonSet string `json:"daemonSet"`
}

// Wave is what changes hands at a time. Its namespaces are nadra's before its
// nodes are drained, so that what is evicted comes back on nadra's nodes.
type Wave struct {
	Name string `json:"name"`
	// Domain is the failure domain that all of its nodes are in.
	Domain     string      `json:"domain,omitempty"`
	Namespaces []string    `json:"namespaces,omitempty"`
	Nodes      []NodeShare `json:"nodes"`
}

// NodeShare is a node of a wave, and whom its move disturbs.
type NodeShare struct {
	Name string `json:"name"`
	// Evicts are the workloads whose pods are evicted from it.
	Evicts []WorkloadPods `json:"evicts,omitempty"`
}

// WorkloadPods is how many pods of a workload something is about.
type WorkloadPods struct {
	Workload `json:",inline"`
	Pods     int `json:"pods"`
}

// LeftNode is a node that no wave has.
type LeftNode struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// StayingWorkload is a workload that stays with Multus.
type StayingWorkload struct {
	Workload `json:",inline"`
	Codes    []string `json:"codes"`
}

// Summary are the totals of a plan.
type Summary struct {
	Nodes      int `json:"nodes"`
	Waves      int `json:"waves"`
	Namespaces int `json:"namespaces"`
	// Evictions is how many pods are evicted at least once, bar those that are
	// evicted from one node of Multus to another.
	Evictions int `json:"evictions"`
	Blockers  int `json:"blockers"`
	Warnings  int `json:"warnings"`
}

// String says the totals in words.
func (s Summary) String() string {
	return fmt.Sprintf("%s in %s, %s; %s evicted; %s, %s", count(s.Nodes, "node"), count(s.Waves, "wave"),
		count(s.Namespaces, "namespace"), count(s.Evictions, "pod"), count(s.Blockers, "blocker"), count(s.Warnings, "warning"))
}

// count returns a number of things, for people.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// ParsePlan reads a plan as YAML or JSON. Unlike a report, it is to be carried
// out: a field that is not known is an error, as it may be a misspelt one.
func ParsePlan(text []byte) (*Plan, error) {
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("it is no YAML: %w", err)
	}
	if head.APIVersion != APIVersion || head.Kind != PlanKind {
		return nil, fmt.Errorf("it is %q %q, not %s %s: upgrade plan writes it", head.APIVersion, head.Kind, APIVersion, PlanKind)
	}
	var p Plan
	if err := yaml.UnmarshalStrict(text, &p); err != nil {
		return nil, err
	}
	return &p, p.validate()
}

// validate refuses what cannot be carried out, as people edit plans.
func (p *Plan) validate() error {
	if len(p.Waves) == 0 {
		return fmt.Errorf("waves has none: there is nothing to do")
	}
	names, nodes, namespaces := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i, w := range p.Waves {
		field := fmt.Sprintf("waves[%d]", i)
		switch {
		case w.Name == "" || names[w.Name]:
			return fmt.Errorf("%s.name is %q: give each wave a name of its own", field, w.Name)
		case len(w.Nodes)+len(w.Namespaces) == 0:
			return fmt.Errorf("%s has neither nodes nor namespaces: remove it", field)
		}
		names[w.Name] = true
		for j, n := range w.Nodes {
			if err := once(nodes, n.Name, validation.IsDNS1123Subdomain); err != nil {
				return fmt.Errorf("%s.nodes[%d].name %w", field, j, err)
			}
		}
		for j, n := range w.Namespaces {
			if err := once(namespaces, n, validation.IsDNS1123Label); err != nil {
				return fmt.Errorf("%s.namespaces[%d] %w", field, j, err)
			}
		}
	}
	for i, l := range p.Left {
		if nodes[l.Name] {
			return fmt.Errorf("left[%d] is node %s, which a wave has, too: remove it from one of them", i, l.Name)
		}
	}
	return nil
}

// once refuses names that are none, or were seen before.
func once(seen map[string]bool, name string, valid func(string) []string) error {
	if wrong := valid(name); len(wrong) > 0 {
		return fmt.Errorf("is %q: %s", name, wrong[0])
	}
	if seen[name] {
		return fmt.Errorf("is %q, which is there twice: remove it from one place", name)
	}
	seen[name] = true
	return nil
}

// JSON returns a plan as the cluster keeps it.
func (p *Plan) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the plan: %w", err)
	}
	return append(text, '\n'), nil
}

// NodeNames are those of all waves, in order.
func (p *Plan) NodeNames() []string {
	var out []string
	for _, w := range p.Waves {
		for _, n := range w.Nodes {
			out = append(out, n.Name)
		}
	}
	return out
}

// WaveOf returns the index of the wave that has a node; -1 if none has.
func (p *Plan) WaveOf(node string) int {
	return slices.IndexFunc(p.Waves, func(w Wave) bool {
		return slices.ContainsFunc(w.Nodes, func(n NodeShare) bool { return n.Name == node })
	})
}

// Blocked are the problems that keep a plan from being carried out.
func (p *Plan) Blocked() []Problem {
	var out []Problem
	for _, one := range p.Problems {
		if one.Severity == Blocker {
			out = append(out, one)
		}
	}
	return out
}

package upgrade

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/internal/desk/document"
	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// Plan is the order in which nodes and namespaces move. A person reviews it, and may
// edit the waves. Its pods are the pods at the time of planning.
type Plan struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Source is the cluster that the plan was made for.
	Source string `json:"source,omitempty"`
	// DomainLabel is the node label whose values are failure domains.
	DomainLabel string `json:"domainLabel,omitempty"`
	// BesideMultus is true if Multus stays on all nodes. Then namespaces move instead of nodes, each by a rollout of
	// its workloads.
	BesideMultus bool `json:"besideMultus,omitempty"`
	// Multus are the DaemonSets that are kept off nadra's nodes.
	Multus []MultusRef `json:"multus"`
	Waves  []Wave      `json:"waves"`
	// Left are the nodes that stay with Multus, with the reason of each.
	Left []leftNode `json:"left,omitempty"`
	// Stays are the workloads that stay with Multus, with their findings.
	Stays []stayingWorkload `json:"stays,omitempty"`
	// Findings are what stops the move, and what to know before it.
	Findings []translate.Finding `json:"findings,omitempty"`
	// Problems are the findings of a plan of an older version, which nothing reads.
	Problems any     `json:"problems,omitempty"`
	Summary  Summary `json:"summary"`
}

// MultusRef names a DaemonSet.
type MultusRef struct {
	Namespace string `json:"namespace"`
	DaemonSet string `json:"daemonSet"`
}

// Wave is a group of nodes and namespaces that move together. Its namespaces become
// nadra's before its nodes, so that pods that are recreated come back on nadra's nodes.
type Wave struct {
	Name string `json:"name"`
	// Domain is the failure domain of all its nodes.
	Domain     string      `json:"domain,omitempty"`
	Namespaces []string    `json:"namespaces,omitempty"`
	Nodes      []NodeShare `json:"nodes,omitempty"`
	// Rollouts are the workloads of its namespaces, beside Multus.
	Rollouts []namespaceShare `json:"rollouts,omitempty"`
}

// namespaceShare is a namespace of a wave, with the pods that its move concerns.
type namespaceShare struct {
	Name string `json:"name"`
	// Restarts are the workloads that a rollout restarts.
	Restarts []WorkloadPods `json:"restarts,omitempty"`
	// Later are the workloads and pods that nothing restarts: nadra serves them from their next start on.
	Later []WorkloadPods `json:"later,omitempty"`
}

// NodeShare is a node of a wave, with the pods whose networks nadra adopts.
type NodeShare struct {
	Name string `json:"name"`
	// Adopts are the workloads whose pods stay on the node.
	Adopts []WorkloadPods `json:"adopts,omitempty"`
}

// WorkloadPods is a number of pods of a workload.
type WorkloadPods struct {
	Workload `json:",inline"`
	Pods     int `json:"pods"`
}

// leftNode is a node outside all waves.
type leftNode struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// stayingWorkload is a workload that stays with Multus.
type stayingWorkload struct {
	Workload `json:",inline"`
	Codes    []string `json:"codes"`
}

// Summary are the totals of a plan.
type Summary struct {
	Nodes      int `json:"nodes"`
	Waves      int `json:"waves"`
	Namespaces int `json:"namespaces"`
	// Evictions is 0 in plans of an older version, and nothing reads it.
	Evictions any `json:"evictions,omitempty"`
	// Adopted is the number of pods that stay on the nodes of the waves.
	Adopted  int `json:"adopted"`
	Blockers int `json:"blockers"`
	Warnings int `json:"warnings"`
	// Rollouts are the totals beside Multus, nil elsewhere.
	Rollouts *RolloutSummary `json:"rollouts,omitempty"`
}

// RolloutSummary are the totals of a plan beside Multus.
type RolloutSummary struct {
	// Workloads are restarted, and Restarted is the number of their pods; Later is the number of pods that nadra
	// serves from their next start on.
	Workloads int `json:"workloads"`
	Restarted int `json:"restarted"`
	Later     int `json:"later"`
}

// String renders the totals.
func (s Summary) String() string {
	if r := s.Rollouts; r != nil {
		return fmt.Sprintf("%s in %s; %s restarted (%s), %s at their next start; %s, %s", words.Count(s.Namespaces, "namespace"), words.Count(s.Waves, "wave"),
			words.Count(r.Workloads, "workload"), words.Count(r.Restarted, "pod"), words.Count(r.Later, "pod"), words.Count(s.Blockers, "blocker"), words.Count(s.Warnings, "warning"))
	}
	return fmt.Sprintf("%s in %s, %s; %s adopted; %s, %s", words.Count(s.Nodes, "node"), words.Count(s.Waves, "wave"),
		words.Count(s.Namespaces, "namespace"), words.Count(s.Adopted, "pod"), words.Count(s.Blockers, "blocker"), words.Count(s.Warnings, "warning"))
}

// ParsePlan parses a plan in YAML or JSON. Unlike a report, a plan is carried out, so
// an unknown field is an error: it may be a misspelt one.
func ParsePlan(text []byte) (*Plan, error) {
	var head struct{ Drain bool }
	if err := document.Read(text, APIVersion, PlanKind, "write a plan with kubectl nadra upgrade plan", &head); err != nil {
		return nil, err
	}
	if head.Drain {
		return nil, fmt.Errorf("drain is true, and this version evicts no pod from a node that moves to nadra: " +
			"write a plan with kubectl nadra upgrade plan, or use the version of kubectl-nadra that wrote this one")
	}
	var p Plan
	if err := yaml.UnmarshalStrict(text, &p); err != nil {
		return nil, err
	}
	return &p, p.validate()
}

// validate rejects plans that cannot be carried out. People edit plans.
func (p *Plan) validate() error {
	if len(p.Waves) == 0 {
		return fmt.Errorf("waves is empty: the plan moves nothing")
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
		if p.BesideMultus && len(w.Nodes) > 0 {
			return fmt.Errorf("%s.nodes: beside Multus no node moves: remove them, or make a new plan", field)
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
			return fmt.Errorf("left[%d] is node %s, which is in a wave, too: remove it from one of them", i, l.Name)
		}
	}
	return nil
}

// once rejects invalid names, and names that were seen before.
func once(seen map[string]bool, name string, valid func(string) []string) error {
	if wrong := valid(name); len(wrong) > 0 {
		return fmt.Errorf("is %q: %s", name, wrong[0])
	}
	if seen[name] {
		return fmt.Errorf("is %q, which the plan has twice: remove one of them", name)
	}
	seen[name] = true
	return nil
}

// Movers returns the nodes of waves or, beside Multus, their namespaces, in order.
func (p *Plan) Movers(waves ...Wave) []string {
	var out []string
	for _, w := range waves {
		if p.BesideMultus {
			out = append(out, w.Namespaces...)
			continue
		}
		for _, n := range w.Nodes {
			out = append(out, n.Name)
		}
	}
	return out
}

// waveOf returns the index of a node's wave, -1 if no wave has the node.
func (p *Plan) waveOf(node string) int {
	return slices.IndexFunc(p.Waves, func(w Wave) bool {
		return slices.ContainsFunc(w.Nodes, func(n NodeShare) bool { return n.Name == node })
	})
}

package upgrade

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// Options control how a cluster is cut into waves. The zero value moves one node at
// a time.
type Options struct {
	// MaxUnavailable is the largest number of nodes in a wave, 1 by default. The
	// first wave always has one node.
	MaxUnavailable int
	// Exclude are the names of nodes that stay with Multus.
	Exclude []string
	// First are the names of nodes that move first, in this order.
	First []string
	// DomainLabel is the node label whose values are failure domains.
	DomainLabel string
}

// NewPlan cuts a cluster into waves of nodes and namespaces, or beside Multus of namespaces, and lists
// the problems of the plan.
func NewPlan(f Facts, o Options) *Plan {
	p := planner{Facts: f, Options: o}
	out := &Plan{
		APIVersion: APIVersion, Kind: PlanKind, Source: f.Source, BesideMultus: f.BesideMultus, Multus: []MultusRef{}, Waves: []Wave{},
	}
	for _, m := range f.Multus {
		out.Multus = append(out.Multus, m.MultusRef)
	}
	for _, s := range f.Stays {
		out.Stays = append(out.Stays, stayingWorkload{Workload: s.Workload, Codes: s.Codes})
	}
	if f.BesideMultus {
		p.planRollouts(out)
		return out
	}
	out.DomainLabel = o.DomainLabel
	var movers []Node
	movers, out.Left = p.divide()
	p.waves = p.nodeWaves(p.inOrder(movers))
	p.assignNamespaces(movers)
	out.Waves = append(out.Waves, p.waves...)
	out.Findings = p.problems(movers, out.Left)
	out.Summary = p.summary(out)
	return out
}

// planner makes one plan.
type planner struct {
	Facts
	Options
	waves []Wave
}

// divide separates the nodes that move from the nodes that stay.
func (p *planner) divide() (movers []Node, left []leftNode) {
	for _, n := range p.Nodes {
		switch {
		case n.Nadra: // moved already
		case slices.Contains(p.Exclude, n.Name):
			left = append(left, leftNode{Name: n.Name, Why: "it is excluded"})
		case !n.Linux:
			left = append(left, leftNode{Name: n.Name, Why: "it does not run Linux"})
		case !n.Ready:
			left = append(left, leftNode{Name: n.Name, Why: "it is not ready"})
		default:
			movers = append(movers, n)
		}
	}
	return movers, left
}

// inOrder sorts nodes: those of Options.First at the front, then those with the fewest
// pods that Multus attached, with the nodes of a failure domain together.
func (p *planner) inOrder(nodes []Node) []Node {
	weight, domains := map[string]int{}, map[string]int{}
	for _, n := range nodes {
		weight[n.Name] = len(p.podsOn(n.Name))
		if lightest, known := domains[n.Domain]; !known || weight[n.Name] < lightest {
			domains[n.Domain] = weight[n.Name]
		}
	}
	out := slices.Clone(nodes)
	slices.SortFunc(out, func(a, b Node) int {
		return cmp.Or(
			cmp.Compare(p.rank(a.Name), p.rank(b.Name)),
			cmp.Compare(domains[a.Domain], domains[b.Domain]), strings.Compare(a.Domain, b.Domain),
			cmp.Compare(weight[a.Name], weight[b.Name]), strings.Compare(a.Name, b.Name),
		)
	})
	return out
}

// rank returns the place of a node or namespace in Options.First. All others come after those.
func (p *planner) rank(name string) int {
	if i := slices.Index(p.First, name); i >= 0 {
		return i
	}
	return len(p.First)
}

// nodeWaves puts one node into the first wave, and up to MaxUnavailable nodes of one
// failure domain into each other wave.
func (p *planner) nodeWaves(nodes []Node) []Wave {
	var out []Wave
	for _, n := range nodes {
		share := NodeShare{Name: n.Name, Adopts: countBy(p.podsOn(n.Name))}
		if last := len(out) - 1; last > 0 && len(out[last].Nodes) < p.MaxUnavailable && out[last].Domain == n.Domain {
			out[last].Nodes = append(out[last].Nodes, share)
			continue
		}
		out = append(out, Wave{Name: fmt.Sprintf("wave-%d", len(out)+1), Domain: n.Domain, Nodes: []NodeShare{share}})
	}
	return out
}

// assignNamespaces assigns each namespace that moves to a wave. The first wave has
// none: its node is tried by canaries only. After that, nadra's share of the pods never
// exceeds its share of the nodes, except in the last wave: before its nodes move, all
// namespaces must have moved.
func (p *planner) assignNamespaces(movers []Node) {
	names := p.moving()
	if len(p.waves) == 0 || len(names) == 0 {
		return
	}
	last := len(p.waves) - 1
	pods, total := map[string]int{}, 0
	for _, pod := range p.Pods {
		if slices.Contains(names, pod.Namespace) {
			pods[pod.Namespace]++
			total++
		}
	}
	// Small namespaces first: a failure then hits few pods.
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(pods[a], pods[b]), strings.Compare(a, b))
	})
	assigned, moved := 0, len(p.waves[0].Nodes)
	for i := 1; i < last; i++ {
		for len(names) > 0 && (assigned+pods[names[0]])*len(movers) <= total*moved {
			assigned += pods[names[0]]
			p.waves[i].Namespaces = append(p.waves[i].Namespaces, names[0])
			names = names[1:]
		}
		moved += len(p.waves[i].Nodes)
	}
	p.waves[last].Namespaces = append(p.waves[last].Namespaces, names...)
	for i := range p.waves {
		slices.Sort(p.waves[i].Namespaces)
	}
}

// moving returns the namespaces with networks that are to move. It leaves out
// namespaces that a person labelled for Multus, and those that a workload holds back.
func (p *planner) moving() []string {
	var out []string
	for _, ns := range p.Namespaces() {
		if p.owner(ns) != v1alpha1.OwnerNadra && p.Owners[ns] != v1alpha1.OwnerMultus && p.heldBack(ns).Kind == "" {
			out = append(out, ns)
		}
	}
	return out
}

func (p *planner) summary(out *Plan) Summary {
	s := Summary{Waves: len(out.Waves)}
	s.countFindings(out.Findings)
	for _, w := range out.Waves {
		s.Nodes += len(w.Nodes)
		s.Namespaces += len(w.Namespaces)
		for _, n := range w.Nodes {
			s.Adopted += total(n.Adopts)
		}
	}
	return s
}

// countFindings counts blockers and warnings.
func (s *Summary) countFindings(all []translate.Finding) {
	n := translate.Count(all)
	s.Blockers, s.Warnings = n.Blocker, n.Warning
}

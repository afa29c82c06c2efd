package upgrade

import (
	"slices"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// HasHome reports whether pods of nadra, or of Multus, have a node to go to,
// other than those that go away.
func (f *Facts) HasHome(nadra bool, going ...string) bool {
	return slices.ContainsFunc(f.Nodes, func(n Node) bool {
		return n.Linux && n.Ready && n.Nadra == nadra && !slices.Contains(going, n.Name)
	})
}

// Stranded are the pods that would be pending if nodes went a way: these are the
// last of whom they leave, and he has the pods' namespaces.
func (f *Facts) Stranded(s *State, way Way, going ...string) []Pod {
	if f.HasHome(way == Back, going...) {
		return nil
	}
	var out []Pod
	for _, node := range going {
		for _, p := range f.Disturbed(node, way) {
			if !p.daemon() && !p.Static && f.comesBack(s, p) == (way == Back) {
				out = append(out, p)
			}
		}
	}
	return out
}

// comesBack reports whether a pod that is made anew is nadra's. A dry run has
// namespaces in the state only.
func (f *Facts) comesBack(s *State, p Pod) (nadra bool) {
	_, taken := s.Namespaces[p.Namespace]
	return !p.Pinned && (taken || f.owner(p.Namespace) == v1alpha1.OwnerNadra)
}

// Overdue are the namespaces of waves, up to and with one if it is named, whose
// nodes are all nadra's: they have been given back since. Their pods need them
// before more nodes go.
func (p *Plan) Overdue(s *State, upTo string) []string {
	var out []string
	for _, w := range p.Waves {
		if !slices.ContainsFunc(w.Nodes, func(n NodeShare) bool { return !s.Nodes[n.Name].moved() }) {
			out = append(out, w.Namespaces...)
		}
		if w.Name == upTo {
			break
		}
	}
	return out
}

// moved reports whether the node is nadra's.
func (n *NodeState) moved() bool { return n.Finished() && n.Way == Forth }

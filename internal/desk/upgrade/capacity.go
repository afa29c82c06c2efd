package upgrade

import (
	"slices"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// hasNodeOf reports whether an owner, v1alpha1.OwnerNadra or OwnerMultus, has a
// ready node besides the leaving ones.
func (f *Facts) hasNodeOf(owner string, leaving ...string) bool {
	return slices.ContainsFunc(f.Nodes, func(n Node) bool {
		return n.Linux && n.Ready && n.Nadra == (owner == v1alpha1.OwnerNadra) && !slices.Contains(leaving, n.Name)
	})
}

// stranded returns the pods that would stay Pending if nodes moved: because the nodes
// are the last of the owner that serves the pods' namespaces.
func (f *Facts) stranded(s *State, direction Direction, leaving ...string) []Pod {
	if f.hasNodeOf(direction.From(), leaving...) {
		return nil
	}
	var out []Pod
	for _, node := range leaving {
		for _, p := range f.disturbed(node, direction) {
			if !p.daemon() && !p.Static && f.nextOwner(s, p) == direction.From() {
				out = append(out, p)
			}
		}
	}
	return out
}

// nextOwner returns the owner that serves a pod when it is recreated. A dry run has
// namespaces in the state only.
func (f *Facts) nextOwner(s *State, p Pod) string {
	_, labelled := s.Namespaces[p.Namespace]
	if !p.Pinned && (labelled || f.owner(p.Namespace) == v1alpha1.OwnerNadra) {
		return v1alpha1.OwnerNadra
	}
	return v1alpha1.OwnerMultus
}

// overdue returns the indices of waves whose nodes have all moved to nadra. Their
// namespaces, if they were rolled back, must be nadra's again before more nodes move. It
// looks at waves up to upTo, or at all waves if upTo is empty.
func (p *Plan) overdue(s *State, upTo string) []int {
	var out []int
	for i, w := range p.Waves {
		if !slices.ContainsFunc(w.Nodes, func(n NodeShare) bool { return !s.Nodes[n.Name].atNadra() }) {
			out = append(out, i)
		}
		if w.Name == upTo {
			break
		}
	}
	return out
}

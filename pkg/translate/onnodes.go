package translate

import (
	"slices"
	"strings"
)

// seekOnNodes reports what the network needs and not all nodes have. What a
// path leads to is where it says so.
func (n *judged) seekOnNodes(e *environment, at Path) {
	nodes := e.options.Nodes
	if len(nodes) == 0 || n.blocked != nil {
		return
	}
	for _, binary := range n.binaries {
		has := func(f NodeFacts) bool { return slices.Contains(f.Plugins, binary) }
		n.seek(nodes, "plugin "+binary, has, PluginOnNoNode, PluginOnSomeNodes, at)
	}
	for _, master := range n.masters {
		has := func(f NodeFacts) bool { return slices.Contains(f.Interfaces, master) }
		n.seek(nodes, "master "+master, has, MasterOnNoNode, MasterOnSomeNodes, at)
	}
}

// seek reports a thing that none or some of the nodes have.
func (n *judged) seek(nodes []NodeFacts, thing string, has func(NodeFacts) bool, none, some Code, at Path) {
	var without []string
	for _, f := range nodes {
		if !has(f) {
			without = append(without, f.Name)
		}
	}
	switch with := len(nodes) - len(without); {
	case len(without) == 0:
	case with == 0:
		n.add(none, at, n.place(at), "%s is on none of the %d nodes", thing, len(nodes))
	default:
		n.add(some, at, n.place(at), "%s is on %d of %d nodes, and not on %s", thing, with, len(nodes), few(without))
	}
}

// filled has each name once: not every plugin has a master, or an IPAM.
func filled(list []string) []string {
	return sortedSet(slices.DeleteFunc(list, func(name string) bool { return name == "" }))
}

// few are the first names of a list, and how many more there are.
func few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + ", …"
}

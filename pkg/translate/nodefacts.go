package translate

import (
	"slices"
	"strings"
)

// checkNodes reports the plugins and masters that some nodes lack, at the given path.
func (n *inputNetwork) checkNodes(e *environment, at Path) {
	nodes := e.options.Nodes
	if len(nodes) == 0 || n.blocked != nil {
		return
	}
	for _, binary := range n.binaries {
		has := func(f NodeFacts) bool { return slices.Contains(f.Plugins, binary) }
		n.checkOnNodes(nodes, "plugin "+binary, has, PluginOnNoNode, PluginOnSomeNodes, at)
	}
	for _, master := range n.masters {
		has := func(f NodeFacts) bool { return slices.Contains(f.Interfaces, master) }
		n.checkOnNodes(nodes, "master "+master, has, MasterOnNoNode, MasterOnSomeNodes, at)
	}
}

// checkOnNodes reports a plugin or master that some or all nodes lack.
func (n *inputNetwork) checkOnNodes(nodes []NodeFacts, thing string, has func(NodeFacts) bool, none, some Code, at Path) {
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
		n.add(some, at, n.place(at), "%s is on %d of %d nodes; missing on %s", thing, with, len(nodes), firstNames(without))
	}
}

// nonEmptySet returns the sorted set of the non-empty names.
func nonEmptySet(list []string) []string {
	return sortedSet(slices.DeleteFunc(list, func(name string) bool { return name == "" }))
}

// firstNames returns the first names of a list, with an ellipsis if there are more.
func firstNames(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + ", …"
}

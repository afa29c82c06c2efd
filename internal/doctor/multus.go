package doctor

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/probe"
)

func multusFlavour(c *Capabilities) finding {
	if len(c.Multus) == 0 {
		if c.gap(PartMultus, "") != nil {
			return missing(c, PartMultus, "")
		}
		return fine("none was recognized")
	}
	var found []string
	for _, m := range c.Multus {
		flavour := "thin"
		if m.Thick {
			flavour = "thick"
		}
		found = append(found, fmt.Sprintf("%s: %s/%s, %s", flavour, m.Namespace, m.DaemonSet, m.Image))
	}
	return says(Note, "Label the nodes that are to be nadra's: nadra.dev/owner=nadra. Multus stays on the others.", "%s", list(found))
}

// sourced are settings and where they were found.
type sourced struct {
	where string
	probe.MultusSettings
}

// settings are those of all places, equal ones once. What nodes have counts:
// their file and over it, where there is a daemon, the daemon's configuration.
// Where no node was probed, a ConfigMap and the DaemonSet's flags tell them.
func settings(c *Capabilities) []sourced {
	var installed, ofNodes []sourced
	var daemon *probe.MultusSettings
	for _, m := range c.Multus {
		if m.Settings == nil {
			continue
		}
		if m.Thick {
			daemon = m.Settings
		}
		installed = addSettings(installed, cmp.Or(m.ConfigMap, m.Namespace+"/"+m.DaemonSet), m.Settings)
	}
	for _, n := range c.probed() {
		if f := multusFile(n.Probe); f != nil {
			ofNodes = addSettings(ofNodes, n.Name, daemon.Over(f))
		}
	}
	if len(ofNodes) > 0 {
		return ofNodes
	}
	return installed
}

// multusFile has the settings of the runtime's first configuration; nil where
// that is not Multus.
func multusFile(r *probe.Report) *probe.MultusSettings {
	if len(r.ConfDirs) == 0 || len(r.ConfDirs[0].Files) == 0 {
		return nil
	}
	return r.ConfDirs[0].Files[0].Multus
}

func addSettings(all []sourced, where string, s *probe.MultusSettings) []sourced {
	i := slices.IndexFunc(all, func(other sourced) bool { return reflect.DeepEqual(other.MultusSettings, *s) })
	if i < 0 {
		return append(all, sourced{where, *s})
	}
	all[i].where += ", " + where
	return all
}

// multusSettings says whether the settings are known at all; the checks after
// it have nothing to say where they are not.
func multusSettings(c *Capabilities) finding {
	known := settings(c)
	switch {
	case len(c.Multus) == 0 && len(known) == 0:
		return nothing
	case len(known) == 0 && c.gap(PartMultus, "") != nil:
		return missing(c, PartMultus, "")
	case len(known) == 0:
		return says(Unknown, "--probe reads them from the nodes.", "neither a ConfigMap nor flags of the DaemonSet tell them")
	}
	var where []string
	for _, s := range known {
		where = append(where, s.where)
	}
	if len(known) > 1 {
		return says(Warning, "Find out which of them count before workloads move.", "they are not the same everywhere: %s", strings.Join(where, "; "))
	}
	return fine("read from %s", where[0])
}

// setting reports each place where a setting has a value.
func setting(c *Capabilities, value func(probe.MultusSettings) string) []string {
	var out []string
	for _, s := range settings(c) {
		if v := value(s.MultusSettings); v != "" {
			out = append(out, fmt.Sprintf("%s (%s)", v, s.where))
		}
	}
	return out
}

// isolationFlags are nadra's equivalent of Multus' isolation.
func isolationFlags(s probe.MultusSettings) string {
	flags := "--namespace-isolation"
	if s.GlobalNamespaces != "" {
		flags += " --global-namespaces=" + s.GlobalNamespaces
	}
	return flags
}

func multusIsolation(c *Capabilities) finding {
	known := settings(c)
	if len(known) == 0 {
		return nothing
	}
	on := setting(c, func(s probe.MultusSettings) string {
		if !s.NamespaceIsolation {
			return ""
		}
		return isolationFlags(s)
	})
	nadra := c.Nadra.Flag("namespace-isolation", "false") != "false"
	switch {
	case len(on) == 0 && !nadra:
		return fine("it is off, as it is with nadra unless it is switched on")
	case len(on) == 0:
		return says(Note, "Nothing needs to be done if it is meant so.", "Multus does not isolate namespaces, and nadra does")
	case !nadra:
		return says(Warning, fmt.Sprintf("Give nadra-node and nadra-controller the same: %s", list(on)), "namespaceIsolation is on")
	}
	return isolatesTheSame(c, known)
}

// isolatesTheSame compares the namespaces whose networks all pods may use.
func isolatesTheSame(c *Capabilities, known []sourced) finding {
	names := func(list string) []string {
		return sortedSet(strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }))
	}
	ours := c.Nadra.Flag("global-namespaces", "default")
	for _, s := range known {
		theirs := cmp.Or(s.GlobalNamespaces, "default")
		if s.NamespaceIsolation && !slices.Equal(names(ours), names(theirs)) {
			return says(Warning, "Give nadra-node and nadra-controller --global-namespaces="+theirs, "Multus shares the networks of %s, nadra those of %s", theirs, ours)
		}
	}
	return fine("on, and the same with nadra: networks of %s are for all", ours)
}

func multusDefaultNetworks(c *Capabilities) finding {
	found := setting(c, func(s probe.MultusSettings) string {
		if len(s.DefaultNetworks) == 0 && s.Delegates > 1 {
			return count(s.Delegates-1, "delegate") + " after the first"
		}
		return list(s.DefaultNetworks)
	})
	switch {
	case len(settings(c)) == 0:
		return nothing
	case len(found) > 0:
		return says(Warning, "Name the networks in the annotation of each workload that needs them. The names net1, net2 … count them with Multus: state the interface's name where it matters.", "defaultNetworks: %s", list(found))
	}
	return fine("there are none")
}

func multusSystemNamespaces(c *Capabilities) finding {
	found := setting(c, func(s probe.MultusSettings) string { return list(s.SystemNamespaces) })
	if len(found) == 0 {
		return nothing
	}
	return says(Note, NothingToDo, "systemNamespaces: %s", list(found))
}

// multusClusterNetwork warns of networks by name. A path is what Multus writes
// itself for the runtime's own configuration.
func multusClusterNetwork(c *Capabilities) finding {
	found := setting(c, func(s probe.MultusSettings) string {
		if strings.HasPrefix(s.ClusterNetwork, "/") {
			return ""
		}
		return s.ClusterNetwork
	})
	switch {
	case len(settings(c)) == 0:
		return nothing
	case len(found) > 0:
		return says(Warning, "Before Multus goes, put that network's configuration into the runtime's CNI directory.", "clusterNetwork: %s", list(found))
	}
	return fine("the default network is the runtime's own")
}

// multusDirectories compares those of Multus with those of nadra's flags.
func multusDirectories(c *Capabilities) finding {
	var differ []string
	for _, s := range settings(c) {
		for _, d := range []struct{ flag, theirs, ours string }{
			{"nad-conf-dir", s.ConfDir, "/etc/cni/multus/net.d"},
			{"cni-bin-dirs", s.BinDir, "/opt/cni/bin"},
		} {
			ours, theirs := strings.Split(c.Nadra.Flag(d.flag, d.ours), ","), hostPath(d.theirs)
			if theirs != "" && !slices.Contains(ours, theirs) {
				differ = append(differ, fmt.Sprintf("--%s=%s", d.flag, theirs))
			}
		}
	}
	switch {
	case len(settings(c)) == 0:
		return nothing
	case len(differ) > 0:
		return says(Warning, "Give nadra-node "+strings.Join(sortedSet(differ), " "), "Multus looks in other directories than nadra would")
	}
	return fine("the same as nadra's")
}

// hostPath is a path as the host has it: Multus' daemon has the host's
// directories below /host.
func hostPath(path string) string {
	if strings.HasPrefix(path, "/host/") {
		path = strings.TrimPrefix(path, "/host")
	}
	return strings.TrimSuffix(path, "/")
}

func multusAuxiliaryChain(c *Capabilities) finding {
	found := setting(c, func(s probe.MultusSettings) string { return s.AuxiliaryCNIChainName })
	if len(found) == 0 {
		return nothing
	}
	return says(Warning, "Chain its plugins in the default network's own configuration.", "auxiliaryCNIChainName: %s", list(found))
}

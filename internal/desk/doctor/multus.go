package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/internal/words"
)

// multusFlavour lists the installations of Multus.
func multusFlavour(c *Capabilities) result {
	if len(c.Multus) == 0 {
		if c.gap(PartMultus, "") != nil {
			return missing(c, PartMultus, "")
		}
		return fine("found no Multus")
	}
	var installed []string
	for _, m := range c.Multus {
		flavour := "thin"
		if m.Thick {
			flavour = "thick"
		}
		installed = append(installed, fmt.Sprintf("%s: %s/%s, %s", flavour, m.Namespace, m.DaemonSet, m.Image))
	}
	if c.Beside() {
		return fine("%s", list(installed))
	}
	return found(info, "Label the nodes that nadra will serve: nadra.dev/owner=nadra. Multus stays on the others.", "%s", list(installed))
}

// sourced has settings and the places where they were found.
type sourced struct {
	where string
	probe.MultusSettings
}

// settings returns the settings of all places, and equal ones once. The nodes' settings
// count: their file and, if there is a daemon, the daemon's configuration over it. If no
// node was probed, it returns those of the ConfigMap and of the DaemonSet's flags.
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

// multusFile returns the settings of the runtime's first configuration, or nil if that is
// not Multus'.
func multusFile(r *probe.Report) *probe.MultusSettings {
	if len(r.ConfDirs) == 0 || len(r.ConfDirs[0].Files) == 0 {
		return nil
	}
	return r.ConfDirs[0].Files[0].Multus
}

// addSettings adds settings, or their place to equal settings.
func addSettings(all []sourced, where string, s *probe.MultusSettings) []sourced {
	// An empty list is as good as none.
	i := slices.IndexFunc(all, func(other sourced) bool { return equality.Semantic.DeepEqual(other.MultusSettings, *s) })
	if i < 0 {
		return append(all, sourced{where, *s})
	}
	all[i].where += ", " + where
	return all
}

// multusSettings checks whether the settings are known. If they are not, the checks after
// it do not apply.
func multusSettings(c *Capabilities) result {
	known := settings(c)
	switch {
	case len(c.Multus) == 0 && len(known) == 0:
		return nothing
	case len(known) == 0 && c.gap(PartMultus, "") != nil:
		return missing(c, PartMultus, "")
	case len(known) == 0:
		return found(Unknown, "Read them from the nodes with --probe.", "neither a ConfigMap nor flags of the DaemonSet have them")
	}
	var where []string
	for _, s := range known {
		where = append(where, s.where)
	}
	if len(known) > 1 {
		return found(warning, "Find out which of them count before you move workloads.", "they differ: %s", strings.Join(where, "; "))
	}
	return fine("read from %s", where[0])
}

// setting lists the values of a setting with their places.
func setting(c *Capabilities, value func(probe.MultusSettings) string) []string {
	var out []string
	for _, s := range settings(c) {
		if v := value(s.MultusSettings); v != "" {
			out = append(out, fmt.Sprintf("%s (%s)", v, s.where))
		}
	}
	return out
}

// isolationFlags returns nadra's equivalent of Multus' isolation.
func isolationFlags(s probe.MultusSettings) string {
	flags := "--namespace-isolation"
	if s.GlobalNamespaces != "" {
		flags += " --global-namespaces=" + s.GlobalNamespaces
	}
	return flags
}

// multusIsolation compares the namespace isolation of Multus and nadra.
func multusIsolation(c *Capabilities) result {
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
	nadra := c.Installation().Driver.On("namespace-isolation")
	switch {
	case len(on) == 0 && !nadra:
		return fine("it is off, which is also nadra's default")
	case len(on) == 0:
		return found(info, "If pods use networks of other namespaces, remove --namespace-isolation from nadra-node and nadra-controller.", "Multus does not isolate namespaces, and nadra does")
	case !nadra:
		return found(warning, fmt.Sprintf("Give nadra-node and nadra-controller the same setting: %s", list(on)), "namespaceIsolation is on")
	}
	return isolatesTheSame(c, known)
}

// isolatesTheSame compares the namespaces whose networks all pods may use.
func isolatesTheSame(c *Capabilities, known []sourced) result {
	names := func(list string) []string {
		return sortedSet(strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }))
	}
	ours := c.Nadra.Flag("global-namespaces", "default")
	for _, s := range known {
		theirs := cmp.Or(s.GlobalNamespaces, "default")
		if s.NamespaceIsolation && !slices.Equal(names(ours), names(theirs)) {
			return found(warning, "Give nadra-node and nadra-controller --global-namespaces="+theirs, "Multus shares the networks of %s, nadra those of %s", theirs, ours)
		}
	}
	return fine("on, and the same with nadra: all pods may use the networks of %s", ours)
}

// multusDefaultNetworks checks for networks that Multus attaches to every pod.
func multusDefaultNetworks(c *Capabilities) result {
	values := setting(c, func(s probe.MultusSettings) string {
		if len(s.DefaultNetworks) == 0 && s.Delegates > 1 {
			return words.Count(s.Delegates-1, "delegate") + " after the first"
		}
		return list(s.DefaultNetworks)
	})
	switch {
	case len(settings(c)) == 0:
		return nothing
	case len(values) > 0 && c.Beside():
		return found(warning, "Name the interfaces of pods that nadra serves by \"interface\" in their annotation, or leave their namespaces to Multus.",
			"defaultNetworks: %s; Multus attaches them to nadra's pods, too, as net1 and following, which are also nadra's names", list(values))
	case len(values) > 0:
		shown := "defaultNetworks: " + list(values)
		if exempt := setting(c, func(s probe.MultusSettings) string { return list(s.SystemNamespaces) }); len(exempt) > 0 {
			shown += "; systemNamespaces: " + list(exempt)
		}
		return found(warning, "Give nadra-controller the same networks by --default-networks=NAMESPACE/NAME,… (chart: controller.defaultNetworks) and the exempt namespaces by --system-namespaces, or label namespaces with nadra.dev/default-networks. Create a NetworkAttachmentDefinition for a network that is a file on the nodes.", "%s", shown)
	}
	return fine("Multus has none")
}

// multusClusterNetwork checks whether Multus attaches another default network. A path is
// Multus' own setting for the runtime's configuration.
func multusClusterNetwork(c *Capabilities) result {
	values := setting(c, func(s probe.MultusSettings) string {
		if strings.HasPrefix(s.ClusterNetwork, "/") {
			return ""
		}
		return s.ClusterNetwork
	})
	switch {
	case len(settings(c)) == 0:
		return nothing
	case len(values) > 0 && c.Beside():
		return fine("clusterNetwork: %s; Multus attaches it to nadra's pods, too", list(values))
	case len(values) > 0:
		return found(warning, "Before you remove Multus, put that network's configuration into the runtime's CNI directory.", "clusterNetwork: %s", list(values))
	}
	return fine("the default network is the runtime's own")
}

// multusDirectories compares the directories of Multus with those of nadra's flags.
func multusDirectories(c *Capabilities) result {
	var differ []string
	for _, s := range settings(c) {
		for _, d := range []struct{ flag, theirs, ours string }{
			{"nad-conf-dir", s.ConfDir, "/etc/cni/multus/net.d"},
			{"cni-bin-dirs", s.BinDir, "/opt/cni/bin"},
		} {
			ours, theirs := strings.Split(c.Nadra.Flag(d.flag, d.ours), ","), hostPath(d.theirs)
			if theirs != "" && !slices.Contains(ours, theirs) {
				if d.flag == "cni-bin-dirs" { // a list, whose present entries stay
					theirs = strings.Join(append(ours, theirs), ",")
				}
				differ = append(differ, fmt.Sprintf("--%s=%s", d.flag, theirs))
			}
		}
	}
	switch {
	case len(settings(c)) == 0:
		return nothing
	case len(differ) > 0:
		return found(warning, "Give nadra-node "+strings.Join(sortedSet(differ), " "), "Multus uses other directories than nadra would")
	}
	return fine("the same as nadra's")
}

// hostPath returns a path as the host has it. Multus' daemon has the host's directories
// below /host.
func hostPath(path string) string {
	if strings.HasPrefix(path, "/host/") {
		path = strings.TrimPrefix(path, "/host")
	}
	return strings.TrimSuffix(path, "/")
}

// multusAuxiliaryChain checks for plugins that Multus runs in its own namespace.
func multusAuxiliaryChain(c *Capabilities) result {
	values := setting(c, func(s probe.MultusSettings) string { return s.AuxiliaryCNIChainName })
	if len(values) == 0 {
		return nothing
	}
	if c.Beside() {
		return fine("auxiliaryCNIChainName: %s; Multus runs its plugins for nadra's pods, too", list(values))
	}
	return found(warning, "Chain its plugins in the default network's own configuration.", "auxiliaryCNIChainName: %s", list(values))
}

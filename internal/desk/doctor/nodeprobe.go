package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// nriAnswers checks that the container runtime has NRI.
func nriAnswers(_ *Capabilities, n *Node) result {
	nri := n.Probe.NRI
	switch {
	case !nri.Found:
		return found(blocker, "Enable NRI in the runtime's configuration (containerd 1.7: disable = false in [plugins.\"io.containerd.nri.v1.nri\"]), or name its socket in nadra-node's --nri-socket.", "no socket at %s: %s", nri.Socket, nri.Error)
	case !nri.Answers:
		return found(blocker, "Look at the runtime's log, and check that it allows plugins to connect (disable_connections).", "%s does not answer: %s", nri.Socket, nri.Error)
	}
	return fine("%s %s answers at %s", nri.Runtime, nri.RuntimeVersion, nri.Socket)
}

// shortest is the shortest request timeout that leaves nadra's hooks their default time.
const shortest = time.Second

// nriTimeout checks NRI's request timeout.
func nriTimeout(_ *Capabilities, n *Node) result {
	if !n.Probe.NRI.Answers {
		return nothing
	}
	if timeout := n.Probe.NRI.RequestTimeout(); timeout < shortest {
		return found(warning, "Raise plugin_request_timeout to its default of 2s.", "%s", timeout)
	}
	return fine("%s", n.Probe.NRI.RequestTimeout())
}

// cdiDir is the default of the driver's flag --cdi-dir.
const cdiDir = "/var/run/cdi"

// cdiDirs checks that the driver can write its CDI specs.
func cdiDirs(c *Capabilities, n *Node) result {
	want := c.Nadra.Flag("cdi-dir", cdiDir)
	i := slices.IndexFunc(n.Probe.CDI, func(d probe.Dir) bool { return d.Path == want })
	switch {
	case i < 0:
		return found(Unknown, "Probe with a newer image.", "the probe did not look at %s", want)
	case n.Probe.CDI[i].ReadOnly:
		return found(blocker, "Give the runtime another directory (cdi_spec_dirs), and the driver the same (--cdi-dir).", "%s is on a read-only file system", want)
	case !n.Probe.CDI[i].Found:
		return fine("%s does not exist yet; the driver creates it", want)
	}
	return fine("%s exists", want)
}

// lacking lists what networks need and a node does not have, with the networks. needed
// counts what they need.
func lacking(c *Capabilities, n *Node, needs func(Network) []string, has func(Node, string) bool) (lacks []string, needed int) {
	users, all := map[string][]string{}, map[string]bool{}
	for _, network := range c.Networks {
		for _, thing := range needs(network) {
			all[thing] = true
			if !has(*n, thing) {
				users[thing] = append(users[thing], network.String())
			}
		}
	}
	return withUsers(users), len(all)
}

// cniPlugins checks that the node has the networks' plugins.
func cniPlugins(c *Capabilities, n *Node) result {
	var dirs, dead []string
	for _, d := range n.Probe.BinDirs {
		dirs = append(dirs, d.Path)
		dead = append(dead, d.NotExecutable...)
	}
	lacks, needed := lacking(c, n, Network.binaries, hasPlugin)
	for i, one := range lacks {
		if name, _, _ := strings.Cut(one, " "); slices.Contains(dead, name) {
			lacks[i] += ", which exists and is not executable"
		}
	}
	if len(lacks) > 0 {
		return found(warning, "Install them if the networks are for this node, or name other directories with --cni-bin-dirs.", "not in %s: %s", list(dirs), list(lacks))
	}
	if needed == 0 {
		return fine("the networks need none")
	}
	return fine("has the %s that networks need", words.Count(needed, "plugin"))
}

// masters checks that the node has the networks' masters.
func masters(c *Capabilities, n *Node) result {
	lacks, needed := lacking(c, n, func(n Network) []string { return n.Masters }, hasInterface)
	if len(lacks) > 0 {
		return found(info, "Create the interfaces if the networks are for this node.", "lacks %s; has %s", list(lacks), possibleMasters(n.Probe))
	}
	if needed == 0 {
		return fine("the networks need none; has %s", possibleMasters(n.Probe))
	}
	return fine("has the %s that networks need", words.Count(needed, "master"))
}

// possibleMasters lists the interfaces that networks usually use.
func possibleMasters(r *probe.Report) string {
	var names []string
	for _, i := range r.Interfaces {
		if i.Kind != probe.Virtual {
			names = append(names, fmt.Sprintf("%s (%s)", i.Name, i.Kind))
		}
	}
	return cmp.Or(list(names), "none")
}

// cniConfiguration checks the configuration of the node's default network.
func cniConfiguration(c *Capabilities, n *Node) result {
	if len(n.Probe.ConfDirs) == 0 {
		return nothing
	}
	dir := n.Probe.ConfDirs[0]
	for _, other := range dir.Others {
		if strings.HasSuffix(other, ".cilium_bak") {
			return found(warning, "Set cni.exclusive to false in Cilium if the runtime should use the file.", "Cilium has renamed %s/%s, like all files that are not its own", dir.Path, other)
		}
	}
	if len(dir.Files) == 0 {
		return found(blocker, "Install the default network, or name the runtime's directory in nadra-node's --cni-conf-dir.", "%s has no configuration", dir.Path)
	}
	return firstConfiguration(c, dir)
}

// firstConfiguration checks the file that the runtime uses.
func firstConfiguration(c *Capabilities, dir probe.ConfDir) result {
	first := dir.Files[0]
	switch {
	case first.Error != "":
		return found(warning, "Correct or remove the file.", "%s/%s comes first and cannot be read: %s", dir.Path, first.File, first.Error)
	case first.Multus == nil:
		return fine("%s/%s (%s) comes first", dir.Path, first.File, list(first.Plugins))
	}
	if c.Beside() {
		return fine("%s/%s is Multus', which stays", dir.Path, first.File)
	}
	i := slices.IndexFunc(dir.Files, func(f probe.ConfFile) bool { return f.Multus == nil && f.Error == "" })
	if i < 0 {
		return found(warning, "Before you remove Multus, put the default network's own configuration there.", "%s/%s is Multus', and there is no other: without it, the node has no default network", dir.Path, first.File)
	}
	return fine("%s/%s is Multus'; without it, the runtime uses %s", dir.Path, first.File, dir.Files[i].File)
}

// dhcpDaemon checks that the daemon of IPAM plugin dhcp runs, if networks use it.
func dhcpDaemon(c *Capabilities, n *Node) result {
	var users []string
	for _, network := range c.Networks {
		if slices.Contains(network.IPAM, attachment.DHCP) {
			users = append(users, network.String())
		}
	}
	switch {
	case len(users) == 0:
		return nothing
	case n.Probe == nil:
		return missing(c, PartProbe, n.Name)
	case !n.Probe.DHCP:
		return found(warning, "Run the daemon (/opt/cni/bin/dhcp daemon) on the node.", "it does not run, and %s need it: %s", words.Count(len(users), "network"), list(users))
	}
	return fine("it runs")
}

// probeErrors lists what the probe could not read.
func probeErrors(_ *Capabilities, n *Node) result {
	if n.Probe == nil || len(n.Probe.Errors) == 0 {
		return nothing
	}
	return found(Unknown, "Let the probe pod read them; a security profile of the node may prevent it.", "%s", strings.Join(n.Probe.Errors, "; "))
}

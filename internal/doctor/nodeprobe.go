package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nadra-dev/nadra/internal/probe"
)

func nriAnswers(c *Capabilities, n *Node) finding {
	if n.Probe == nil {
		return missing(c, PartProbe, n.Name)
	}
	nri := n.Probe.NRI
	switch {
	case !nri.Found:
		return says(Blocker, "Switch NRI on in the runtime's configuration (containerd 1.7: disable = false in [plugins.\"io.containerd.nri.v1.nri\"]), or say where its socket is.", "no socket at %s: %s", nri.Socket, nri.Error)
	case !nri.Answers:
		return says(Blocker, "Look into the runtime's log, and whether it allows plugins to connect (disable_connections).", "%s does not answer: %s", nri.Socket, nri.Error)
	}
	return fine("%s %s answers at %s", nri.Runtime, nri.RuntimeVersion, nri.Socket)
}

// shortest is the request timeout with which nadra's hooks have as much time as
// they have by default.
const shortest = time.Second

func nriTimeout(c *Capabilities, n *Node) finding {
	switch {
	case n.Probe == nil:
		return missing(c, PartProbe, n.Name)
	case !n.Probe.NRI.Answers:
		return nothing
	}
	if timeout := n.Probe.NRI.RequestTimeout(); timeout < shortest {
		return says(Warning, "Raise plugin_request_timeout to its default of 2s.", "%s", timeout)
	}
	return fine("%s", n.Probe.NRI.RequestTimeout())
}

// cdiDir is where the driver writes its specs unless it is told otherwise.
const cdiDir = "/var/run/cdi"

func cdiDirs(c *Capabilities, n *Node) finding {
	if n.Probe == nil {
		return missing(c, PartProbe, n.Name)
	}
	want := c.Nadra.Flag("cdi-dir", cdiDir)
	i := slices.IndexFunc(n.Probe.CDI, func(d probe.Dir) bool { return d.Path == want })
	switch {
	case i < 0:
		return says(Unknown, "Probe with a newer image.", "nobody looked at %s", want)
	case n.Probe.CDI[i].ReadOnly:
		return says(Blocker, "Give the runtime another directory (cdi_spec_dirs), and the driver the same (--cdi-dir).", "%s is on a file system that is read-only", want)
	case !n.Probe.CDI[i].Found:
		return fine("%s is not there yet; the driver makes it", want)
	}
	return fine("%s is there", want)
}

// lacking are the things that networks need and a node does not have, with the
// networks; needed is how many they need.
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

func cniPlugins(c *Capabilities, n *Node) finding {
	if n.Probe == nil {
		return missing(c, PartProbe, n.Name)
	}
	var dirs, dead []string
	for _, d := range n.Probe.BinDirs {
		dirs = append(dirs, d.Path)
		dead = append(dead, d.NotExecutable...)
	}
	lacks, needed := lacking(c, n, Network.Binaries, hasPlugin)
	for i, one := range lacks {
		if name, _, _ := strings.Cut(one, " "); slices.Contains(dead, name) {
			lacks[i] += ", which is there and not executable"
		}
	}
	if len(lacks) > 0 {
		return says(Warning, "Install them if the networks are for this node; --cni-bin-dirs names other directories.", "not in %s: %s", list(dirs), list(lacks))
	}
	if needed == 0 {
		return fine("the networks need none")
	}
	return fine("has the %s that networks need", count(needed, "plugin"))
}

func masters(c *Capabilities, n *Node) finding {
	if n.Probe == nil {
		return missing(c, PartProbe, n.Name)
	}
	lacks, needed := lacking(c, n, func(n Network) []string { return n.Masters }, hasInterface)
	if len(lacks) > 0 {
		return says(Note, "Nothing needs to be done if the networks are for other nodes.", "lacks %s; has %s", list(lacks), possibleMasters(n.Probe))
	}
	if needed == 0 {
		return fine("the networks need none; has %s", possibleMasters(n.Probe))
	}
	return fine("has the %s that networks need", count(needed, "master"))
}

// possibleMasters are the interfaces that networks are usually put on.
func possibleMasters(r *probe.Report) string {
	var names []string
	for _, i := range r.Interfaces {
		if i.Kind != probe.Virtual {
			names = append(names, fmt.Sprintf("%s (%s)", i.Name, i.Kind))
		}
	}
	return cmp.Or(list(names), "none")
}

func cniConfiguration(c *Capabilities, n *Node) finding {
	switch {
	case n.Probe == nil:
		return missing(c, PartProbe, n.Name)
	case len(n.Probe.ConfDirs) == 0:
		return nothing
	}
	dir := n.Probe.ConfDirs[0]
	for _, other := range dir.Others {
		if strings.HasSuffix(other, ".cilium_bak") {
			return says(Warning, "Set cni.exclusive to false in Cilium if the file is meant to count.", "Cilium has renamed %s/%s, as it does with all that is not its own", dir.Path, other)
		}
	}
	if len(dir.Files) == 0 {
		return says(Blocker, "Install the default network, or say where the runtime looks for it (--cni-conf-dir).", "%s has no configuration", dir.Path)
	}
	return firstConfiguration(dir)
}

func firstConfiguration(dir probe.ConfDir) finding {
	first := dir.Files[0]
	switch {
	case first.Error != "":
		return says(Warning, "Correct or remove the file.", "%s/%s comes first and cannot be read: %s", dir.Path, first.File, first.Error)
	case first.Multus == nil:
		return fine("%s/%s (%s) comes first", dir.Path, first.File, list(first.Plugins))
	}
	i := slices.IndexFunc(dir.Files, func(f probe.ConfFile) bool { return f.Multus == nil && f.Error == "" })
	if i < 0 {
		return says(Warning, "Before Multus goes, put the default network's own configuration there.", "%s/%s is Multus, and there is no other: without it the node has no default network", dir.Path, first.File)
	}
	return says(Note, "Nothing needs to be done while Multus is there.", "%s/%s is Multus; when it goes, %s counts", dir.Path, first.File, dir.Files[i].File)
}

func dhcpDaemon(c *Capabilities, n *Node) finding {
	var users []string
	for _, network := range c.Networks {
		if slices.Contains(network.IPAM, "dhcp") {
			users = append(users, network.String())
		}
	}
	switch {
	case len(users) == 0:
		return nothing
	case n.Probe == nil:
		return missing(c, PartProbe, n.Name)
	case !n.Probe.DHCP:
		return says(Warning, "Run the daemon (/opt/cni/bin/dhcp daemon) on the node.", "it does not run, and %s ask it: %s", count(len(users), "network"), list(users))
	}
	return fine("it runs")
}

func hostLocal(c *Capabilities, n *Node) finding {
	uses := slices.ContainsFunc(c.Networks, func(network Network) bool { return slices.Contains(network.IPAM, "host-local") })
	switch {
	case n.Probe == nil && uses:
		return missing(c, PartProbe, n.Name)
	case n.Probe == nil || !uses && len(n.Probe.HostLocal) == 0:
		return nothing
	}
	addresses := 0
	for _, leases := range n.Probe.HostLocal {
		addresses += leases.Addresses
	}
	return fine("%s of %s given out", plural(addresses, "address", "addresses"), count(len(n.Probe.HostLocal), "network"))
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func probeErrors(_ *Capabilities, n *Node) finding {
	if n.Probe == nil || len(n.Probe.Errors) == 0 {
		return nothing
	}
	return says(Unknown, "Let the probing pod read them; a security profile of the node may be in its way.", "%s", strings.Join(n.Probe.Errors, "; "))
}

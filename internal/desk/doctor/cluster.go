package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// missing returns the finding for a part that has no value.
func missing(c *Capabilities, part, node string) result {
	if g := c.gap(part, node); g != nil {
		return unread(g)
	}
	return result{severity: Unknown, what: "it was not read", do: "Read the live cluster with this version of kubectl nadra."}
}

// kubernetesVersion checks that the API server serves what nadra uses.
func kubernetesVersion(c *Capabilities) result {
	if c.Server.Version == "" {
		return missing(c, PartVersion, "")
	}
	text := c.Server.Version
	if c.Server.Emulated != "" {
		text += ", which emulates " + c.Server.Emulated
	}
	served := cmp.Or(c.Server.Emulated, c.Server.Version)
	judged := judgeVersion(kubernetesName, served, text, "Look at the version that the API server reports: kubectl version.")
	if judged.severity == OK && !hasSharedDevices(served) && c.Server.Gates == nil {
		return found(info, "Find out whether the feature gate DRAConsumableCapacity is on; the check feature-gates says what it changes.", "%s has no shared devices by default", text)
	}
	return judged
}

// draResources are the resources of resource.k8s.io/v1 that nadra uses.
var draResources = []string{"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"}

// draAPI checks that the API server serves resource.k8s.io/v1.
func draAPI(c *Capabilities) result {
	versions := c.Server.ResourceVersions
	switch {
	case len(versions) == 0:
		return found(blocker, upgradeKubernetes, "resource.k8s.io is not served")
	case !slices.Contains(versions, "v1"):
		return found(blocker, upgradeKubernetes, "resource.k8s.io is served as %s, not as v1", list(versions))
	}
	var lacks []string
	for _, r := range draResources {
		if !slices.Contains(c.Server.Resources, r) {
			lacks = append(lacks, r)
		}
	}
	if len(lacks) > 0 {
		return found(blocker, "Look for flags of the API server that disable resources (--runtime-config).", "resource.k8s.io/v1 lacks %s", list(lacks))
	}
	return fine("resource.k8s.io/v1 has all resources that nadra uses")
}

// gates are the feature gates that nadra uses, with the effect of switching them off.
var gates = []struct {
	name    string
	status  translate.Severity
	without string
}{
	{"DynamicResourceAllocation", blocker, "nothing works"},
	{"DRAResourceClaimDeviceStatus", warning, "claims have no status of their devices"},
	{"DRAConsumableCapacity", info, "a device is a number of copies, --copies of nadra-node, and addresses are not counted: a pod stays pending if its node has no copy left, so --copies must be at least the number of attachments that the pods of a node have to the networks of one master"},
	{"DRADeviceTaints", info, "functions whose PF has no link are withdrawn, and the scheduler does not say why"},
	{"ResourceHealthStatus", info, "the status of pods lacks the health of their networks"},
	{"DRAExtendedResource", info, "a pool's DeviceClass does not serve requests for its extended resource"},
}

// featureGates checks the feature gates of the API server.
func featureGates(c *Capabilities) result {
	if c.Server.Gates == nil {
		return missing(c, PartGates, "")
	}
	worst, off := OK, []string{}
	for _, g := range gates {
		// A gate that the server does not know is always on, or does not exist yet.
		if on, known := c.Server.Gates[g.name]; known && !on {
			off = append(off, fmt.Sprintf("%s (%s)", g.name, g.without))
			worst = worse(worst, g.status)
		}
	}
	if len(off) > 0 {
		return found(worst, "Switch on the gates that you need, by --feature-gates of the API server, the scheduler, the controller manager and the kubelets.", "off: %s", strings.Join(off, ", "))
	}
	return fine("all gates that nadra uses are on")
}

// order lists the outcomes, the mildest first.
var order = []translate.Severity{OK, info, Unknown, warning, blocker}

// worse returns the worse of two outcomes.
func worse(a, b translate.Severity) translate.Severity {
	if slices.Index(order, a) < slices.Index(order, b) {
		return b
	}
	return a
}

// componentsOf returns the check that has a finding for each component of a kind.
func componentsOf(kind string) func(*Capabilities) []aboutObject {
	return func(c *Capabilities) (out []aboutObject) {
		for _, one := range c.Components {
			if one.Kind == kind {
				out = append(out, aboutObject{result: found(warning, componentAdvice(one.Name), "%s (%s)", one.Name, one.Where)})
			}
		}
		for _, part := range []string{PartComponents, kind} {
			if g := c.gap(part, ""); g != nil {
				return append(out, aboutObject{result: unread(g)})
			}
		}
		if len(out) == 0 {
			out = append(out, aboutObject{result: fine("found no known %s", kind)})
		}
		return out
	}
}

// nodes reports that no node can be checked.
func nodes(c *Capabilities) result {
	switch {
	case len(c.Nodes) > 0:
		return nothing
	case c.gap(PartNodes, "") != nil:
		return missing(c, PartNodes, "")
	}
	return found(Unknown, "Check again when the cluster has nodes.", "the cluster has no nodes")
}

// networkConfigurations checks that the NADs can be read.
func networkConfigurations(c *Capabilities) result {
	var broken []string
	onNodes := 0
	for _, n := range c.Networks {
		switch {
		case n.Error != "":
			broken = append(broken, n.String())
		case n.OnNodes:
			onNodes++
		}
	}
	switch {
	case len(broken) > 0:
		return found(blocker, "Find the errors with kubectl nadra scan -A.", "%s of %d cannot be read: %s", words.Count(len(broken), "network"), len(c.Networks), list(broken))
	case onNodes > 0:
		return found(info, "Keep the files in the directory of --nad-conf-dir.", "%s; the configurations of %d are files on the nodes, which were not read", words.Count(len(c.Networks), "network"), onNodes)
	}
	return fine("%s can be read", words.Count(len(c.Networks), "network"))
}

// nowhere lists what networks need and no probed node has, with the networks.
func nowhere(c *Capabilities, needs func(Network) []string, has func(Node, string) bool) []string {
	users := map[string][]string{}
	for _, n := range c.Networks {
		for _, thing := range needs(n) {
			if !slices.ContainsFunc(c.probed(), func(node Node) bool { return has(node, thing) }) {
				users[thing] = append(users[thing], n.String())
			}
		}
	}
	return withUsers(users)
}

// withUsers lists things with the networks that need them, sorted.
func withUsers(users map[string][]string) []string {
	var out []string
	for thing, networks := range users {
		out = append(out, fmt.Sprintf("%s (for %s)", thing, list(networks)))
	}
	slices.Sort(out)
	return out
}

// onSomeNode returns the finding for what networks need if no probed node has it.
func onSomeNode(c *Capabilities, status translate.Severity, do string, needs func(Network) []string, has func(Node, string) bool) result {
	if len(c.probed()) == 0 {
		return missing(c, PartProbe, "")
	}
	if lacks := nowhere(c, needs, has); len(lacks) > 0 {
		return found(status, do, "on none of %s: %s", words.Count(len(c.probed()), "probed node"), list(lacks))
	}
	return fine("every one is on a probed node")
}

// networkPlugins checks that the plugins of all networks are on a node.
func networkPlugins(c *Capabilities) result {
	return onSomeNode(c, blocker, "Install them on the nodes that are to serve these networks.", Network.binaries, hasPlugin)
}

// networkMasters checks that the masters of all networks are on a node.
func networkMasters(c *Capabilities) result {
	return onSomeNode(c, warning, "Create the interfaces, or correct the networks.", func(n Network) []string { return n.Masters }, hasInterface)
}

func hasPlugin(n Node, name string) bool    { return n.Probe.HasPlugin(name) }
func hasInterface(n Node, name string) bool { return n.Probe.HasInterface(name) }

package doctor

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// The first Kubernetes that serves resource.k8s.io/v1, and the first that has
// shared devices by default.
var (
	firstVersion  = version.MustParseGeneric("1.34.0")
	sharedDevices = version.MustParseGeneric("1.36.0")
)

const upgradeKubernetes = "Upgrade to Kubernetes 1.34 or later; 1.36 or later is better."

// missing is the finding for a part without its value.
func missing(c *Capabilities, part, node string) finding {
	if g := c.gap(part, node); g != nil {
		return unread(g)
	}
	return finding{status: Unknown, what: "it was not read", do: "Look at the live cluster with this version of kubectl nadra."}
}

func kubernetesVersion(c *Capabilities) finding {
	v, err := version.ParseGeneric(c.Server.Version)
	switch {
	case c.Server.Version == "":
		return missing(c, PartVersion, "")
	case err != nil:
		return says(Unknown, "kubectl version shows what the API server says of itself.", "%q is no version", c.Server.Version)
	case !v.AtLeast(firstVersion):
		return says(Blocker, upgradeKubernetes, "%s is older than 1.34", c.Server.Version)
	case !v.AtLeast(sharedDevices):
		return says(Note, "Nothing needs to be done. --copies-per-network says how many copies there are.", "%s has no shared devices by default", c.Server.Version)
	}
	return fine("%s", c.Server.Version)
}

// draResources are those of resource.k8s.io/v1 that nadra uses.
var draResources = []string{"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"}

func draAPI(c *Capabilities) finding {
	versions := c.Server.ResourceVersions
	switch {
	case c.gap(PartGroups, "") != nil:
		return missing(c, PartGroups, "")
	case len(versions) == 0:
		return says(Blocker, upgradeKubernetes, "resource.k8s.io is not served")
	case !slices.Contains(versions, "v1"):
		return says(Blocker, upgradeKubernetes, "resource.k8s.io is served as %s, not as v1", list(versions))
	}
	var lacks []string
	for _, r := range draResources {
		if !slices.Contains(c.Server.Resources, r) {
			lacks = append(lacks, r)
		}
	}
	if len(lacks) > 0 {
		return says(Blocker, "Look for flags of the API server that switch resources off (--runtime-config).", "resource.k8s.io/v1 lacks %s", list(lacks))
	}
	return fine("resource.k8s.io/v1 has all that nadra uses")
}

// gates are those that change what nadra can do, with what becomes of it when
// they are off.
var gates = []struct {
	name    string
	status  Status
	without string
}{
	{"DynamicResourceAllocation", Blocker, "nothing works"},
	{"DRAResourceClaimDeviceStatus", Warning, "claims do not say what became of them"},
	{"DRAConsumableCapacity", Note, "networks are copies instead of shared devices"},
	{"DRAExtendedResource", Note, "old requests for a pool's resource are not served by its DeviceClass"},
}

func featureGates(c *Capabilities) finding {
	if c.Server.Gates == nil {
		return missing(c, PartGates, "")
	}
	worst, off := OK, []string{}
	for _, g := range gates {
		// A gate that is gone is on for good, or not invented yet.
		if on, known := c.Server.Gates[g.name]; known && !on {
			off = append(off, fmt.Sprintf("%s (%s)", g.name, g.without))
			worst = worse(worst, g.status)
		}
	}
	if len(off) > 0 {
		return says(worst, "Switch on what you need, by --feature-gates of the API server, the scheduler, the controller manager and the kubelets.", "off: %s", strings.Join(off, ", "))
	}
	return fine("all that nadra uses are on")
}

// order has the mildest outcome first.
var order = []Status{OK, Note, Unknown, Warning, Blocker}

func worse(a, b Status) Status {
	if slices.Index(order, a) < slices.Index(order, b) {
		return b
	}
	return a
}

func componentsOf(c *Capabilities, kind string) []string {
	var out []string
	for _, one := range c.Components {
		if one.Kind == kind {
			out = append(out, fmt.Sprintf("%s (%s)", one.Name, one.Where))
		}
	}
	return out
}

func schedulers(c *Capabilities) finding {
	found := componentsOf(c, Scheduler)
	switch {
	case len(found) > 0:
		return says(Warning, "Let each of them place one pod with a claim before workloads move. Kueue counts claims by deviceClassMappings of its configuration (NADRA-034).", "beside kube-scheduler: %s", list(found))
	case c.gap(PartComponents, "") != nil:
		return missing(c, PartComponents, "")
	}
	return fine("none beside kube-scheduler was recognized")
}

func autoscalers(c *Capabilities) finding {
	found := componentsOf(c, Autoscaler)
	switch {
	case len(found) > 0:
		return says(Warning, "See that its version knows claims (cluster-autoscaler: --enable-dynamic-resource-allocation), and keep a node in each group that has networks of its own.", "%s", list(found))
	case c.gap(PartComponents, "") != nil:
		return missing(c, PartComponents, "")
	}
	return fine("none was recognized")
}

func nodes(c *Capabilities) finding {
	switch {
	case len(c.Nodes) > 0:
		return fine("%s, %d probed", count(len(c.Nodes), "node"), len(c.probed()))
	case c.gap(PartNodes, "") != nil:
		return missing(c, PartNodes, "")
	}
	return says(Unknown, "Look again when it has some.", "there are none")
}

func nadraDriver(c *Capabilities) finding {
	n := c.Nadra
	switch {
	case n == nil && c.gap(PartMultus, "") != nil: // both are DaemonSets
		return missing(c, PartMultus, "")
	case n == nil:
		return says(Note, "kubectl apply -k manifests/drop-in, when the rest is well.", "it is not installed")
	case n.Ready < n.Desired:
		return says(Warning, fmt.Sprintf("kubectl -n %s get pods -o wide", n.Namespace), "%s/%s is ready on %d of %d nodes", n.Namespace, n.DaemonSet, n.Ready, n.Desired)
	}
	return fine("%s/%s is ready on %s", n.Namespace, n.DaemonSet, count(int(n.Ready), "node"))
}

func networkConfigurations(c *Capabilities) finding {
	if g := c.gap(PartNetworks, ""); g != nil {
		return unread(g)
	}
	var broken []string
	onNodes := 0
	for _, n := range c.Networks {
		if n.Error != "" {
			broken = append(broken, n.String())
		}
		if n.OnNodes {
			onNodes++
		}
	}
	switch {
	case len(broken) > 0:
		return says(Blocker, "kubectl nadra scan -A says where they are wrong.", "%s of %d cannot be read: %s", count(len(broken), "network"), len(c.Networks), list(broken))
	case onNodes > 0:
		return says(Note, "Keep the files in the directory of --nad-conf-dir.", "%s; the configurations of %d are files of the nodes, which were not read", count(len(c.Networks), "network"), onNodes)
	}
	return fine("%s can be read", count(len(c.Networks), "network"))
}

// nowhere are the things that networks need and no probed node has, with the
// networks.
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

// withUsers has what is needed by whom, sorted.
func withUsers(users map[string][]string) []string {
	var out []string
	for thing, networks := range users {
		out = append(out, fmt.Sprintf("%s (for %s)", thing, list(networks)))
	}
	slices.Sort(out)
	return out
}

func networkPlugins(c *Capabilities) finding {
	if len(c.probed()) == 0 {
		return missing(c, PartProbe, "")
	}
	if lacks := nowhere(c, Network.Binaries, hasPlugin); len(lacks) > 0 {
		return says(Blocker, "Install them on the nodes that are to serve these networks.", "on none of %s: %s", count(len(c.probed()), "probed node"), list(lacks))
	}
	return fine("each is on a probed node")
}

func networkMasters(c *Capabilities) finding {
	if len(c.probed()) == 0 {
		return missing(c, PartProbe, "")
	}
	needs := func(n Network) []string { return n.Masters }
	if lacks := nowhere(c, needs, hasInterface); len(lacks) > 0 {
		return says(Warning, "Make the interfaces, or correct the networks.", "on none of %s: %s", count(len(c.probed()), "probed node"), list(lacks))
	}
	return fine("each is on a probed node")
}

func hasPlugin(n Node, name string) bool    { return n.Probe.HasPlugin(name) }
func hasInterface(n Node, name string) bool { return n.Probe.HasInterface(name) }

package doctor

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// linux has a check only for nodes that nadra's driver can run on.
func linux(check func(*Capabilities, *Node) finding) func(*Capabilities, *Node) finding {
	return func(c *Capabilities, n *Node) finding {
		if n.OS != "" && n.OS != "linux" {
			return nothing
		}
		return check(c, n)
	}
}

func nodeSystem(_ *Capabilities, n *Node) finding {
	if n.OS != "" && n.OS != "linux" {
		return says(Note, NothingToDo, "%s is not served", n.OS)
	}
	return fine("%s", strings.Join(present(n.Image, n.Kernel, n.Arch), ", "))
}

// askNode is for what a node says of itself and nobody understands.
const askNode = "kubectl get nodes -o wide shows what the node says of itself."

// present are the items that are not empty.
func present(items ...string) []string {
	var out []string
	for _, item := range items {
		if item != "" {
			out = append(out, item)
		}
	}
	return out
}

// atLeast judges a version. known is false for what is none.
func atLeast(text string, least *version.Version) (enough, known bool) {
	v, err := version.ParseGeneric(text)
	if err != nil {
		return false, false
	}
	return v.AtLeast(least), true
}

func kubeletVersion(_ *Capabilities, n *Node) finding {
	switch enough, known := atLeast(n.Kubelet, firstVersion); {
	case !known:
		return says(Unknown, askNode, "%q is no version", n.Kubelet)
	case !enough:
		return says(Blocker, upgradeKubernetes, "%s is older than 1.34", n.Kubelet)
	}
	return fine("%s", n.Kubelet)
}

// Versions of containerd: the first with NRI, and the first that nadra was tried
// on.
var (
	firstNRI   = version.MustParseGeneric("1.7.0")
	containerd = version.MustParseGeneric("2.2.6")
)

const upgradeContainerd = "Upgrade containerd to 2.2.6 or later."

func runtimeVersion(_ *Capabilities, n *Node) finding {
	name, text, _ := strings.Cut(n.Runtime, "://")
	switch name {
	case "":
		return says(Unknown, askNode, "the node does not say which it has")
	case "containerd":
		return containerdVersion(text)
	case "cri-o":
		return says(Warning, "Try one pod of each kind before workloads move.", "cri-o %s has NRI; nadra's tests do not run with it", text)
	}
	return says(Blocker, "Use containerd 2.2.6 or later.", "%s is no runtime that is known to have NRI", n.Runtime)
}

func containerdVersion(text string) finding {
	first, known := atLeast(text, firstNRI)
	enough, _ := atLeast(text, containerd)
	switch {
	case !known:
		return says(Unknown, upgradeContainerd, "%q is no version of containerd", text)
	case !first:
		return says(Blocker, upgradeContainerd, "containerd %s has no NRI", text)
	case !enough:
		return says(Warning, upgradeContainerd+" In 1.7 NRI is off until it is switched on.", "containerd %s is older than 2.2.6", text)
	}
	return fine("containerd %s", text)
}

// firstCookie is the first kernel with SO_NETNS_COOKIE.
var firstCookie = version.MustParseGeneric("5.14.0")

func kernelVersion(_ *Capabilities, n *Node) finding {
	switch enough, known := atLeast(n.Kernel, firstCookie); {
	case !known:
		return says(Unknown, askNode, "%q is no version", n.Kernel)
	case !enough:
		return says(Blocker, "Upgrade the kernel to 5.14 or later. Those of distributions that have taken the cookie over have to be tried.", "%s is older than 5.14", n.Kernel)
	}
	return fine("%s", n.Kernel)
}

func kubeletGates(c *Capabilities, n *Node) finding {
	if n.Config == nil {
		return missing(c, PartConfig, n.Name)
	}
	worst, off := OK, []string{}
	for _, g := range gates {
		if on, set := n.Config.FeatureGates[g.name]; set && !on {
			off = append(off, g.name)
			worst = worse(worst, g.status)
		}
	}
	if len(off) > 0 {
		return says(worst, "Take them out of featureGates of the kubelet's configuration.", "off: %s", list(off))
	}
	return fine("none that nadra uses is switched off")
}

const numa = "Leave workloads that need the alignment on the device plugin, or put CPUs and network into one claim with a DRA driver for CPUs; devices have the attributes numaNode and pcieRoot. See NADRA-023."

func topologyManager(c *Capabilities, n *Node) finding {
	if n.Config == nil {
		return missing(c, PartConfig, n.Name)
	}
	policy := cmp.Or(n.Config.TopologyManagerPolicy, "none")
	switch policy {
	case "none":
		return fine("none: nothing is aligned today")
	case "best-effort":
		return says(Note, numa, "%s", policy)
	}
	return says(Warning, numa, "%s%s", policy, inScope(n.Config.TopologyManagerScope))
}

func inScope(scope string) string {
	if scope == "" || scope == "container" {
		return ""
	}
	return fmt.Sprintf(", by %s", scope)
}

func cpuManager(c *Capabilities, n *Node) finding {
	if n.Config == nil {
		return missing(c, PartConfig, n.Name)
	}
	if policy := cmp.Or(n.Config.CPUManagerPolicy, "none"); policy != "none" {
		return says(Note, numa, "%s: pods of class Guaranteed get exclusive CPUs", policy)
	}
	return fine("none: there are no exclusive CPUs")
}

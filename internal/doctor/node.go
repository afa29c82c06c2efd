package doctor

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// linux restricts a check to nodes on which nadra's driver can run.
func linux(check func(*Capabilities, *Node) finding) func(*Capabilities, *Node) finding {
	return func(c *Capabilities, n *Node) finding {
		if n.OS != "" && n.OS != "linux" {
			return nothing
		}
		return check(c, n)
	}
}

// nodeSystem checks the node's operating system.
func nodeSystem(_ *Capabilities, n *Node) finding {
	if n.OS != "" && n.OS != "linux" {
		return found(Note, NothingToDo, "nadra does not run on %s", n.OS)
	}
	return fine("%s", strings.Join(present(n.Image, n.Kernel, n.Arch), ", "))
}

// askNode is the remedy for a version that cannot be parsed.
const askNode = "Look at the versions that the node reports: kubectl get nodes -o wide."

// present returns the items that are not empty.
func present(items ...string) []string {
	var out []string
	for _, item := range items {
		if item != "" {
			out = append(out, item)
		}
	}
	return out
}

// atLeast compares a version. known is false if text is not a version.
func atLeast(text string, least *version.Version) (enough, known bool) {
	v, err := version.ParseGeneric(text)
	if err != nil {
		return false, false
	}
	return v.AtLeast(least), true
}

// kubeletVersion checks that the kubelet can prepare claims.
func kubeletVersion(_ *Capabilities, n *Node) finding {
	switch enough, known := atLeast(n.Kubelet, firstVersion); {
	case !known:
		return found(Unknown, askNode, "%q is not a version", n.Kubelet)
	case !enough:
		return found(Blocker, upgradeKubernetes, "%s is older than 1.34", n.Kubelet)
	}
	return fine("%s", n.Kubelet)
}

// Versions of container runtimes: the first containerd with NRI, and the oldest of each that
// nadra is for.
var (
	firstNRI   = version.MustParseGeneric("1.7.0")
	containerd = version.MustParseGeneric("2.2.6")
	crio       = version.MustParseGeneric("1.36.0")
)

const upgradeContainerd = "Upgrade containerd to 2.2.6 or later."

// runtimeVersion checks that the container runtime has NRI and CDI.
func runtimeVersion(_ *Capabilities, n *Node) finding {
	name, text, _ := strings.Cut(n.Runtime, "://")
	switch name {
	case "":
		return found(Unknown, askNode, "the node does not report its container runtime")
	case "containerd":
		return containerdVersion(text)
	case "cri-o":
		return crioVersion(text)
	}
	return found(Blocker, "Use containerd 2.2.6 or later.", "%s is not known to have NRI", n.Runtime)
}

// containerdVersion checks containerd's version.
func containerdVersion(text string) finding {
	first, known := atLeast(text, firstNRI)
	enough, _ := atLeast(text, containerd)
	switch {
	case !known:
		return found(Unknown, upgradeContainerd, "%q is not a version of containerd", text)
	case !first:
		return found(Blocker, upgradeContainerd, "containerd %s has no NRI", text)
	case !enough:
		return found(Warning, upgradeContainerd+" In 1.7, NRI is off by default.", "containerd %s is older than 2.2.6", text)
	}
	return fine("containerd %s", text)
}

// crioVersion checks CRI-O's version.
func crioVersion(text string) finding {
	const tryFirst = "Test one pod of each kind before you move workloads."
	switch enough, known := atLeast(text, crio); {
	case !known:
		return found(Unknown, tryFirst, "%q is not a version of CRI-O", text)
	case !enough:
		return found(Warning, tryFirst, "cri-o %s is older than 1.36, and nadra's tests do not cover it", text)
	}
	return fine("cri-o %s", text)
}

// firstCookie is the first kernel with SO_NETNS_COOKIE.
var firstCookie = version.MustParseGeneric("5.14.0")

// kernelVersion checks that the kernel has cookies of network namespaces.
func kernelVersion(_ *Capabilities, n *Node) finding {
	switch enough, known := atLeast(n.Kernel, firstCookie); {
	case !known:
		return found(Unknown, askNode, "%q is not a version", n.Kernel)
	case !enough:
		return found(Blocker, "Upgrade the kernel to 5.14 or later, or test whether the distribution has backported SO_NETNS_COOKIE.", "%s is older than 5.14", n.Kernel)
	}
	return fine("%s", n.Kernel)
}

// kubeletGates checks the feature gates of the kubelet.
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
		return found(worst, "Remove them from featureGates in the kubelet's configuration.", "off: %s", list(off))
	}
	return fine("no gate that nadra uses is off")
}

const numa = "Leave workloads that need the alignment on the device plugin, or put CPUs and network into one claim with a DRA driver for CPUs; devices have the attributes numaNode and pcieRoot. See NADRA-023."

// topologyManager checks whether the kubelet aligns devices by NUMA node.
func topologyManager(c *Capabilities, n *Node) finding {
	if n.Config == nil {
		return missing(c, PartConfig, n.Name)
	}
	policy := cmp.Or(n.Config.TopologyManagerPolicy, "none")
	switch policy {
	case "none":
		return fine("none: the kubelet aligns nothing")
	case "best-effort":
		return found(Note, numa, "%s", policy)
	}
	return found(Warning, numa, "%s%s", policy, inScope(n.Config.TopologyManagerScope))
}

// inScope names the scope of the Topology Manager, unless it is the default.
func inScope(scope string) string {
	if scope == "" || scope == "container" {
		return ""
	}
	return fmt.Sprintf(", by %s", scope)
}

// cpuManager checks whether pods get exclusive CPUs.
func cpuManager(c *Capabilities, n *Node) finding {
	if n.Config == nil {
		return missing(c, PartConfig, n.Name)
	}
	if policy := cmp.Or(n.Config.CPUManagerPolicy, "none"); policy != "none" {
		return found(Note, numa, "%s: pods of class Guaranteed get exclusive CPUs", policy)
	}
	return fine("none: there are no exclusive CPUs")
}

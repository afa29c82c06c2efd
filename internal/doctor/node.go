package doctor

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/nadra-dev/nadra/internal/support"
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

// supported returns what the table of supported versions says about a version, which text
// names.
func supported(row support.Row, text string) finding {
	switch {
	case row.Problem == "":
		return fine("%s", text)
	case row.Blocks:
		return found(Blocker, row.Remedy, "%s %s", text, row.Problem)
	}
	return found(Warning, row.Remedy, "%s %s", text, row.Problem)
}

// kubeletVersion checks that the kubelet can prepare claims.
func kubeletVersion(_ *Capabilities, n *Node) finding {
	row, known := support.Find(support.Kubernetes, n.Kubelet)
	if !known {
		return found(Unknown, askNode, "%q is not a version", n.Kubelet)
	}
	return supported(row, n.Kubelet)
}

// runtimeVersion checks that the container runtime has NRI and CDI.
func runtimeVersion(_ *Capabilities, n *Node) finding {
	name, text, _ := strings.Cut(n.Runtime, "://")
	if name == "" {
		return found(Unknown, askNode, "the node does not report its container runtime")
	}
	component := support.OfRuntime(name)
	row, known := support.Find(component, text)
	switch {
	case !known:
		return found(Unknown, askNode, "%q is not a version of %s", text, component)
	case component == support.OtherRuntime:
		return supported(row, n.Runtime)
	}
	return supported(row, name+" "+text)
}

// kernelVersion checks that the kernel has cookies of network namespaces.
func kernelVersion(_ *Capabilities, n *Node) finding {
	row, known := support.Find(support.Linux, n.Kernel)
	if !known {
		return found(Unknown, askNode, "%q is not a version", n.Kernel)
	}
	return supported(row, n.Kernel)
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

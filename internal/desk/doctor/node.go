package doctor

import (
	"cmp"
	"strings"
)

// askNode is the remedy for a version that cannot be parsed.
const askNode = "Look at the versions that the node reports: kubectl get nodes -o wide."

// kubeletVersion checks that the kubelet can prepare claims.
func kubeletVersion(_ *Capabilities, n *Node) result {
	return judgeVersion(kubernetesName, n.Kubelet, n.Kubelet, askNode)
}

// runtimeVersion checks that the container runtime has NRI and CDI.
func runtimeVersion(_ *Capabilities, n *Node) result {
	name, text, _ := strings.Cut(n.Runtime, "://")
	switch name {
	case "":
		return found(Unknown, askNode, "the node does not report its container runtime")
	case containerd, crio:
		return judgeVersion(name, text, name+" "+text, askNode)
	}
	return found(blocker, "Use containerd 2.4 or CRI-O 1.36.", "%s is not known to have NRI", n.Runtime)
}

// kernelVersion checks that the kernel has cookies of network namespaces.
func kernelVersion(_ *Capabilities, n *Node) result {
	return judgeVersion(linuxOS, n.Kernel, n.Kernel, askNode)
}

// kubeletGates checks the feature gates of the kubelet.
func kubeletGates(_ *Capabilities, n *Node) result {
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

const numa = "Leave workloads that need the alignment on the device plugin, or request CPUs of a DRA driver and the network in one claim (docs/operate/numa.md). See NADRA-023."

// topologyManager checks whether the kubelet aligns devices by NUMA node, and whether pods get exclusive CPUs.
func topologyManager(_ *Capabilities, n *Node) result {
	policy := cmp.Or(n.Config.TopologyManagerPolicy, "none")
	shown := policy
	if scope := cmp.Or(n.Config.TopologyManagerScope, "container"); scope != "container" {
		shown += ", by " + scope
	}
	if cpus := cmp.Or(n.Config.CPUManagerPolicy, "none"); cpus != "none" {
		shown += ", with exclusive CPUs (" + cpus + ")"
	}
	switch policy {
	case "none":
		return fine("%s: the kubelet aligns nothing", shown)
	case "best-effort":
		return found(info, numa, "%s", shown)
	}
	return found(warning, numa, "%s", shown)
}

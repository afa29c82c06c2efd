package driver

import (
	nri "github.com/containerd/nri/pkg/api"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// sandboxOf converts NRI's pod, whose annotations are those of the time when the sandbox was made. The sandbox of a pod with the host's network has no namespace,
// whatever the runtime reports: containerd reports none, CRI-O a path at which isHost finds the
// host's.
func sandboxOf(pod *nri.PodSandbox, isHost func(netns string) bool) attachment.Sandbox {
	s := attachment.Sandbox{
		ID:  pod.GetId(),
		Pod: attachment.PodRef{Namespace: pod.GetNamespace(), Name: pod.GetName(), UID: pod.GetUid()},
		IPs: pod.GetIps(),
	}
	networks := pod.GetAnnotations()[attachment.NetworksAnnotation]
	s.Networks = &networks
	namespaces := pod.GetLinux().GetNamespaces()
	s.Unspecified = len(namespaces) == 0
	for _, ns := range namespaces {
		if ns.GetType() == "network" && !isHost(ns.GetPath()) {
			s.NetNS = ns.GetPath()
		}
	}
	return s
}

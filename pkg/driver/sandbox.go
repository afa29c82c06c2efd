package driver

import (
	nri "github.com/containerd/nri/pkg/api"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// networksReader reads the annotation by which pods request networks of nadra.
type networksReader struct{ besideMultus bool }

// text returns the annotation's value.
func (r networksReader) text(annotations map[string]string) string {
	if r.besideMultus {
		return annotations[attachment.OwnNetworksAnnotation]
	}
	return attachment.NetworksText(annotations)
}

// sandboxReader converts NRI's pods.
type sandboxReader struct {
	networksReader
	// isHost reports whether the network namespace at a path is the host's.
	isHost func(netns string) bool
}

// live converts NRI's pod for liveSandboxes.
func (r sandboxReader) live(pod *nri.PodSandbox) liveSandbox {
	return liveSandbox{Sandbox: r.of(pod), static: isStatic(pod), annotation: attachment.NetworksKey(pod.GetAnnotations()), launcher: attachment.IsLauncher(pod.GetLabels())}
}

// of converts NRI's pod, whose annotations are those of the time when the sandbox was made. The sandbox
// of a pod with the host's network has no namespace, whatever the runtime reports: containerd
// reports none, CRI-O a path at which isHost finds the host's. Of an annotation beyond the limit it
// keeps as much as refuses it.
func (r sandboxReader) of(pod *nri.PodSandbox) attachment.Sandbox {
	s := attachment.Sandbox{
		ID:  pod.GetId(),
		Pod: attachment.PodRef{Namespace: pod.GetNamespace(), Name: pod.GetName(), UID: pod.GetUid()},
		IPs: pod.GetIps(),
	}
	networks := v1alpha1.Cut(r.text(pod.GetAnnotations()), v1alpha1.MaxAnnotation)
	s.Networks = &networks
	namespaces := pod.GetLinux().GetNamespaces()
	s.Unspecified = len(namespaces) == 0
	for _, ns := range namespaces {
		if ns.GetType() == "network" && !r.isHost(ns.GetPath()) {
			s.NetNS = ns.GetPath()
		}
	}
	return s
}

package snapshot

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/internal/probe"
)

// configHash is the annotation of a static pod's mirror with the UID that the
// kubelet has for the pod itself.
const configHash = "kubernetes.io/config.hash"

// ProbeUID is by what a node knows a pod.
func ProbeUID(pod *corev1.Pod) string {
	return cmp.Or(pod.Annotations[configHash], string(pod.UID))
}

// addSeen adds what the nodes saw to the pods.
func (in *Input) addSeen(s *Snapshot) {
	byUID := map[string]*corev1.Pod{}
	for _, p := range in.Pods {
		byUID[string(p.UID)] = p
	}
	for name, look := range in.Nodes {
		n := Node{Name: name}
		if look.Err != nil {
			n.Errors = append(n.Errors, look.Err.Error())
		}
		if look.Pods != nil {
			n.Errors = append(n.Errors, look.Pods.Errors...)
		}
		s.Nodes = append(s.Nodes, n)
	}
	slices.SortFunc(s.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	for i := range s.Pods {
		p := &s.Pods[i]
		look := in.Nodes[p.Node].Pods
		object := byUID[p.UID]
		if look == nil || object == nil {
			continue
		}
		uid := ProbeUID(object)
		for j := range look.Pods {
			if look.Pods[j].UID == uid {
				p.Seen = seenOf(&look.Pods[j], p, object, look.VFs)
			}
		}
	}
}

func seenOf(from *probe.Pod, p *Pod, object *corev1.Pod, vfs []probe.VF) *Seen {
	out := &Seen{Links: from.Links, Routes: from.Routes, Rules: from.Rules, Sysctls: from.Sysctls, Errors: from.Errors}
	if out.Links == nil {
		out.Links = []probe.Link{}
	}
	names := map[string]string{}
	for _, s := range object.Status.ContainerStatuses {
		_, id, _ := strings.Cut(s.ContainerID, "://")
		names[id] = s.Name
	}
	for _, c := range from.Containers {
		if names[c.ID] == "" {
			continue // the sandbox, or an init container's remains
		}
		for name, value := range c.Env {
			out.Env = append(out.Env, Variable{Container: names[c.ID], Name: name, Value: value})
		}
	}
	sortVariables(out.Env)
	own := p.functions(out)
	for _, vf := range vfs {
		if slices.Contains(own, vf.PCI) {
			out.VFs = append(out.VFs, vf)
		}
	}
	return out
}

// functions are the PCI addresses of a pod's devices, by all that tells them.
func (p *Pod) functions(seen *Seen) []string {
	var out []string
	for _, n := range p.Interfaces {
		if n.Device != nil {
			out = append(out, n.Device.PCI)
		}
	}
	for _, l := range seen.Links {
		out = append(out, l.PCI)
	}
	for _, v := range seen.Env {
		if isDevices(v.Name) {
			out = append(out, strings.Split(v.Value, ",")...)
		}
	}
	return slices.DeleteFunc(out, func(a string) bool { return a == "" })
}

// isDevices reports whether a variable lists devices.
func isDevices(name string) bool {
	return strings.HasPrefix(name, "PCIDEVICE_") && !strings.HasSuffix(name, infoSuffix)
}

package snapshot

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/internal/probe"
)

// configHash is the annotation of a mirror pod with the UID that the kubelet uses for
// the static pod.
const configHash = "kubernetes.io/config.hash"

// probeUID returns the UID by which the kubelet knows a pod.
func probeUID(pod *corev1.Pod) string {
	return cmp.Or(pod.Annotations[configHash], string(pod.UID))
}

// addObserved adds the observations of nodes to the pods.
func (in *Input) addObserved(s *Snapshot) {
	byUID := map[string]*corev1.Pod{}
	for _, p := range in.Pods {
		byUID[string(p.UID)] = p
	}
	for name, observation := range in.Nodes {
		n := Node{Name: name}
		if observation.Err != nil {
			n.Errors = append(n.Errors, observation.Err.Error())
		}
		if observation.Pods != nil {
			n.Errors = append(n.Errors, observation.Pods.Errors...)
		}
		s.Nodes = append(s.Nodes, n)
	}
	slices.SortFunc(s.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	for i := range s.Pods {
		p := &s.Pods[i]
		pods := in.Nodes[p.Node].Pods
		object := byUID[p.UID]
		if pods == nil || object == nil {
			continue
		}
		uid := probeUID(object)
		for j := range pods.Pods {
			if pods.Pods[j].UID == uid {
				p.Observed = observedOf(&pods.Pods[j], p, object, pods.VFs)
			}
		}
	}
}

// observedOf returns what a node observed of a pod.
func observedOf(from *probe.Pod, p *Pod, object *corev1.Pod, vfs []probe.VF) *Observed {
	out := &Observed{Links: from.Links, Routes: from.Routes, Rules: from.Rules, Sysctls: from.Sysctls, Errors: from.Errors}
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
			continue // the sandbox, or an ended init container
		}
		for name, value := range c.Env {
			out.Env = append(out.Env, variable{Container: names[c.ID], Name: name, Value: value})
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

// functions returns the PCI addresses of a pod's devices, from all sources.
func (p *Pod) functions(observed *Observed) []string {
	var out []string
	for _, n := range p.Interfaces {
		if n.Device != nil {
			out = append(out, n.Device.PCI)
		}
	}
	for _, l := range observed.Links {
		out = append(out, l.PCI)
	}
	for _, v := range observed.Env {
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

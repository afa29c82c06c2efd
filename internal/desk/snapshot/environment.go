package snapshot

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// specVariables returns the variables about networks in a pod's spec.
func specVariables(pod *corev1.Pod) []variable {
	var out []variable
	for _, c := range pod.Spec.Containers {
		for _, e := range c.Env {
			if e.ValueFrom == nil && probe.KeepVariable(e.Name) {
				out = append(out, variable{Container: c.Name, Name: e.Name, Value: e.Value})
			}
		}
	}
	return out
}

// infoSuffix ends the names of variables that describe devices to programs. Their values
// are the device plugin's own, and cannot be derived from the cluster's objects.
const infoSuffix = "_INFO"

// addDerived adds the variables that follow from the pod's devices, which the device
// plugin or the driver sets in its containers.
func (p *Pod) addDerived(s *indexed) {
	var devices []attachment.Hardware
	for _, n := range p.Interfaces {
		network := s.networks[n.Network]
		if network != nil && network.Pool != "" && n.Device != nil && n.Device.PCI != "" {
			devices = append(devices, attachment.Hardware{ID: n.Device.PCI, ResourceName: network.Pool})
		}
	}
	variables, err := attachment.Environment(devices)
	if err != nil { // of variables with infoSuffix only
		variables = nil
	}
	for _, v := range variables {
		if name, value, _ := strings.Cut(v, "="); !strings.HasSuffix(name, infoSuffix) {
			p.Env = append(p.Env, variable{Name: name, Value: value})
		}
	}
	sortVariables(p.Env)
}

func sortVariables(list []variable) {
	slices.SortFunc(list, func(a, b variable) int {
		return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.Name, b.Name))
	})
}

package translate

import (
	"slices"

	"github.com/nadra-dev/nadra/pkg/operators"
)

// GroupKind names a kind of objects, whatever its version.
type GroupKind struct{ Group, Kind string }

// virtualMachineKinds are KubeVirt's that name networks.
var virtualMachineKinds = []GroupKind{
	{"kubevirt.io", "VirtualMachine"},
	{"kubevirt.io", "VirtualMachineInstance"},
	{"kubevirt.io", "VirtualMachineInstanceReplicaSet"},
	{"pool.kubevirt.io", "VirtualMachinePool"},
}

// contextKinds are those that the rules for other objects look at, besides
// networks and what they are rendered from.
var contextKinds = []GroupKind{
	{"node.k8s.io", "RuntimeClass"},
	{"resource.k8s.io", "DeviceClass"},
	{"resource.k8s.io", "ResourceClaimTemplate"},
	{"", "ResourceQuota"},
	{"kueue.x-k8s.io", "ClusterQueue"},
}

// Kinds are all that the rules look at, those with pods first, each once:
// whoever reads a cluster needs no others.
func Kinds(more []TemplatePath) []GroupKind {
	var all []GroupKind
	seen := map[GroupKind]bool{}
	add := func(kind GroupKind) {
		if !seen[kind] {
			seen[kind] = true
			all = append(all, kind)
		}
	}
	for _, t := range slices.Concat(templatePaths, more) {
		add(GroupKind{t.Group, t.Kind})
	}
	for _, kind := range virtualMachineKinds {
		add(kind)
	}
	add(GroupKind{nadGroup, nadKind})
	for _, kind := range operators.Kinds() {
		add(GroupKind{groupOf(kind.APIVersion), kind.Kind})
	}
	for _, kind := range contextKinds {
		add(kind)
	}
	return all
}

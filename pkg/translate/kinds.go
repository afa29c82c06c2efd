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

// contextKinds are those that workloads refer to, or that are about them.
var contextKinds = []GroupKind{
	{nadGroup, nadKind},
	{nadGroup, policyKind},
	{"node.k8s.io", "RuntimeClass"},
	{"resource.k8s.io", "DeviceClass"},
	{"resource.k8s.io", "ResourceClaimTemplate"},
}

// quotaKinds are those that count resources.
var quotaKinds = []GroupKind{
	{"", "ResourceQuota"},
	{"kueue.x-k8s.io", "ClusterQueue"},
}

// ContextKinds are those to give as context where only some workloads of a
// cluster are converted.
func ContextKinds() []GroupKind { return slices.Clone(contextKinds) }

// WorkloadKinds are those with pods.
func WorkloadKinds(more []TemplatePath) []GroupKind {
	var all []GroupKind
	for _, t := range slices.Concat(templatePaths, more) {
		all = append(all, GroupKind{t.Group, t.Kind})
	}
	return slices.Compact(append(all, virtualMachineKinds...))
}

// Kinds are all that the rules look at, those with pods first:
// whoever reads a cluster needs no others.
func Kinds(more []TemplatePath) []GroupKind {
	var all []GroupKind
	for _, kind := range operators.Kinds() {
		all = append(all, GroupKind{groupOf(kind.APIVersion), kind.Kind})
	}
	return slices.Concat(WorkloadKinds(more), contextKinds, all, quotaKinds)
}

package translate

import "slices"

// GroupKind names a kind of objects, whatever its version.
type GroupKind struct{ Group, Kind string }

// virtualMachineKinds are the kinds of KubeVirt that name networks.
var virtualMachineKinds = []GroupKind{
	{"kubevirt.io", "VirtualMachine"},
	{"kubevirt.io", "VirtualMachineInstance"},
	{"kubevirt.io", "VirtualMachineInstanceReplicaSet"},
	{"pool.kubevirt.io", "VirtualMachinePool"},
}

// contextKinds are the kinds to which workloads refer, or that select workloads.
var contextKinds = []GroupKind{
	{nadGroup, nadKind},
	{nadGroup, policyKind},
	{"node.k8s.io", "RuntimeClass"},
	{"resource.k8s.io", "DeviceClass"},
	{"resource.k8s.io", "ResourceClaimTemplate"},
}

// quotaKinds are the kinds that limit resources.
var quotaKinds = []GroupKind{
	{"", "ResourceQuota"},
	{"kueue.x-k8s.io", "ClusterQueue"},
}

// ContextKinds returns the kinds to read as context when only some workloads of a cluster are
// converted.
func ContextKinds() []GroupKind { return slices.Clone(contextKinds) }

// WorkloadKinds returns the kinds with pods.
func WorkloadKinds(more []TemplatePath) []GroupKind {
	var all []GroupKind
	for _, t := range slices.Concat(templatePaths, more) {
		all = append(all, GroupKind{t.Group, t.Kind})
	}
	return slices.Compact(append(all, virtualMachineKinds...))
}

// Kinds returns all kinds of a cluster that the rules read, those with pods first. A cluster has the networks
// that operators make.
func Kinds(more []TemplatePath) []GroupKind {
	return slices.Concat(WorkloadKinds(more), contextKinds, quotaKinds)
}

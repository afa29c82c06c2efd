package translate

import "slices"

// Scope tells which pods matter to a program.
type Scope string

// The scopes.
const (
	AllPods  Scope = "all pods"
	Edits    Scope = "running pods whose annotation is edited"
	Policies Scope = "namespaces with MultiNetworkPolicies"
	Networks Scope = "pods with networks of its plugin"
	Machines Scope = "virtual machines"
)

// Program is a program that reads the annotation k8s.v1.cni.cncf.io/networks of pods.
type Program struct {
	// Name is its common name.
	Name string
	// Names are those by which its workloads are recognized.
	Names []string
	Scope Scope
	// Plugins are its plugins, for interfaces or addresses, with scope Networks.
	Plugins []string
	// Harmless is true if nadra's pods need nothing of what it does not do.
	Harmless bool
	// Lost is what it does not do for pods whose annotation was renamed, and Do the remedy.
	Lost, Do string
}

const (
	leavePods     = "Leave the pods that need it to Multus: label nadra.dev/owner=multus on their namespace or pod template."
	leaveMachines = "Leave virtual machines to Multus: label nadra.dev/owner=multus on spec.template of the VirtualMachine, or on its namespace."
	leaveNetworks = "Leave pods with these networks to Multus: label nadra.dev/owner=multus on their namespace or pod template."
)

// programs are the known programs. Each comment names the source that was read, by repository and commit.
//
// whereabouts (k8snetworkplumbingwg/whereabouts 3a262bd) is not among them: its controllers go by
// network-status, which nadra writes.
var programs = []Program{
	{
		// k8snetworkplumbingwg/multi-networkpolicy-iptables cbf2b11, multi-networkpolicy-tc 1bdd521 and
		// multi-networkpolicy-nftables 6d91ee5 take networks from the annotation and addresses from network-status.
		Name: "multi-networkpolicy", Scope: Policies,
		Names: []string{"multi-networkpolicy", "multus-networkpolicy", "multi-networkpolicy-iptables", "multi-networkpolicy-tc", "multi-networkpolicy-nftables"},
		Lost:  "it enforces no MultiNetworkPolicy on these pods, and rules that name them as peers do not admit them",
		Do:    "Leave pods that a MultiNetworkPolicy selects, or names as peers, to Multus: label nadra.dev/owner=multus on their namespace or pod template.",
	},
	{
		// k8snetworkplumbingwg/multus-dynamic-networks-controller 7b7d894.
		Name: "multus-dynamic-networks-controller", Scope: Edits, Names: []string{"dynamic-networks-controller", "dynamic-networks", "multus-dynamic-networks-controller"},
		Lost: "it neither attaches nor detaches networks of these pods; if the annotation is added to a running pod, it has Multus attach those networks, too",
		Do:   "To change the networks of a running pod that nadra serves, edit its annotation nadra.dev/networks: nadra attaches and detaches by it.",
	},
	{
		// kubevirt/kubevirt v1.8.0: the annotation is written to launcher pods, again for each interface that is
		// plugged or unplugged, and compared with the one that the pod has.
		Name: "KubeVirt", Scope: Machines, Names: []string{"virt-controller"},
		Lost: "when an interface is plugged or unplugged, it writes the annotation to the launcher pod again, and Multus attaches what nadra has attached already",
		Do:   leaveMachines,
	},
	{
		// kubevirt/ipam-extensions edb24de.
		Name: "kubevirt-ipam-controller", Scope: Machines, Names: []string{"kubevirt-ipam-controller", "ipam-virt-workloads"},
		Lost: "it adds no IPAMClaim to launcher pods whose annotation has moved before its webhook is called",
		Do:   leaveMachines,
	},
	{
		// k8snetworkplumbingwg/kubemacpool 3f1a718.
		Name: "kubemacpool", Scope: AllPods, Names: []string{"kubemacpool", "kubemacpool-mac-controller-manager"},
		Lost: "it gives these pods no address if its webhook is called after nadra's; and it forgets those that it gave when it restarts, and may give them again",
		Do:   leavePods,
	},
	{
		// k8snetworkplumbingwg/network-resources-injector 61d01b9.
		Name: "network-resources-injector", Scope: AllPods, Names: []string{"network-resources-injector"}, Harmless: true,
		Lost: "it adds neither resource requests nor node selectors to these pods: their claims take the place of both",
		Do:   "Nothing needs to be done. Pods that need a device of a plugin are left to Multus, unless nadra-controller has --pools.",
	},
	{
		// ovn-kubernetes/ovn-kubernetes 8871cd9.
		Name: "ovn-kubernetes", Scope: Networks, Plugins: []string{"ovn-k8s-cni-overlay"},
		Names: []string{"ovnkube-node", "ovnkube-controller", "ovnkube-control-plane", "ovnkube-cluster-manager", "ovnkube-master"},
		Lost:  "it gives these pods neither ports nor addresses, so its plugin fails",
		Do:    leaveNetworks,
	},
	{
		// kubeovn/kube-ovn 1533681.
		Name: "kube-ovn", Scope: Networks, Plugins: []string{"kube-ovn"}, Names: []string{"kube-ovn-controller"},
		Lost: "it gives these pods neither ports nor addresses, so its plugin fails",
		Do:   leaveNetworks,
	},
	{
		// antrea-io/antrea fc70f2b: its agent attaches secondary networks by the annotation.
		Name: "antrea", Scope: Networks, Plugins: []string{"antrea"}, Names: []string{"antrea-agent"},
		Lost: "it attaches no secondary network to these pods",
		Do:   leaveNetworks,
	},
	{
		// spidernet-io/spiderpool a7fbd3b: an IPPool with spec.multusName is matched with the annotation.
		Name: "spiderpool", Scope: Networks, Plugins: []string{"spiderpool"}, Names: []string{"spiderpool-agent"},
		Lost: "from an IPPool with spec.multusName it gives these pods no addresses, and its plugin fails",
		Do:   "Use IPPools without spec.multusName for them, or leave pods with these networks to Multus: label nadra.dev/owner=multus on their namespace or pod template.",
	},
	{
		// loxilb-io/kube-loxilb 3d62e04.
		Name: "kube-loxilb", Scope: AllPods, Names: []string{"kube-loxilb"},
		Lost: "it makes no endpoints of these pods' addresses for services on secondary networks",
		Do:   "Leave the pods behind such services to Multus: label nadra.dev/owner=multus on their namespace or pod template.",
	},
	{
		// openshift/multus-admission-controller 4bb2e20.
		Name: "multus-admission-controller", Scope: AllPods, Names: []string{"multus-admission-controller"}, Harmless: true,
		Lost: "its metrics do not count these pods as users of networks, and its webhook does not check the namespaces of their networks",
		Do:   "Nothing needs to be done. nadra restricts networks to namespaces by --namespace-isolation.",
	},
}

// Plugins returns the plugins, for interfaces or addresses, whose programs read the annotation: without it
// they prepare nothing, and the plugin fails.
func Plugins() []string {
	var out []string
	for _, p := range programs {
		out = append(out, p.Plugins...)
	}
	return out
}

// Concerns reports whether the reader does something for a pod that nadra's claims do not replace. plugins are
// those of the pod's networks, and policies is true if its namespace has MultiNetworkPolicies.
func (r Reader) Concerns(plugins []string, policies bool) bool {
	p, known := Of(r.Program)
	if !known || p.Harmless {
		return false
	}
	switch p.Scope {
	case AllPods:
		return true
	case Policies:
		return policies
	case Networks:
		return slices.ContainsFunc(p.Plugins, func(plugin string) bool { return slices.Contains(plugins, plugin) })
	case Edits, Machines:
	}
	return false
}

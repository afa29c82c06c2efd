package support

import "slices"

const (
	copies = "their default is **DRAConsumableCapacity off**: a device is a number of copies, and addresses are not counted"

	leak        = "they leave a sandbox's process and its record behind when an NRI plugin refuses the sandbox: [the leak](../install/runtimes.md#containerd). `doctor` warns, nadra runs"
	noAddresses = "reports no addresses of the pod"

	ofCRIO = "[the end of a sandbox has another order](#cri-o); no PID of a sandbox; a path for the namespace of pods with the host's network"
)

// KubernetesRows lists what nadra runs on of Kubernetes, the newest first.
func KubernetesRows() []Row {
	return []Row{
		{Component: Kubernetes, From: "1.38", Status: Expected},
		{Component: Kubernetes, From: "1.37", Before: "1.38", Status: Expected, Lanes: []string{"e2e-node", "e2e-beside", "e2e-dropin"}, Remark: "devices are shared (DRAConsumableCapacity is on). All lanes with a cluster run it"},
		{Component: Kubernetes, From: "1.36", Before: "1.37", Status: Expected, Lanes: []string{"e2e-core"}, Remark: "as 1.37"},
		{Component: Kubernetes, From: "1.35", Before: "1.36", Status: Expected, Lanes: []string{"e2e-core"}, Remark: copies},
		{Component: Kubernetes, From: "1.34", Before: "1.35", Status: Expected, Lanes: []string{"e2e-core"}, Remark: "as 1.35"},
		{Component: Kubernetes, Before: "1.34", Status: NotSupported, Remark: "no `resource.k8s.io/v1`", Doctor: "blocker"},
		{Component: Emulated, From: "1.34", Before: "1.35", Status: Expected, Lanes: []string{"e2e-emulated"}, Remark: "by the control plane of 1.37 (`--emulated-version=1.34`)"},
		{Component: Kubelet, From: "1.36", Before: "1.37", Status: Expected, Lanes: []string{"e2e-core"}, Remark: "with a control plane of 1.37"},
		{Component: Kubelet, From: "1.35", Before: "1.36", Status: Expected, Lanes: []string{"e2e-core"}, Remark: "with a control plane of 1.37"},
	}
}

// RuntimeRows lists what nadra runs on of container runtimes, the newest first.
func RuntimeRows() []Row {
	return []Row{
		{Component: Containerd, From: "2.5", Status: Expected, NRI: "on", CDI: "on", Differences: "none known"},
		{Component: Containerd, From: "2.4", Before: "2.5", Status: Expected, Lanes: []string{"e2e-node", "e2e-beside", "faults"}, Remark: "all lanes with a cluster except `e2e-crio` and `faults-crio` run it", NRI: "on", CDI: "on", Differences: "none"},
		{Component: Containerd, From: "2.3.3", Before: "2.4", Status: Expected, Lanes: []string{"e2e-containerd-2.3"}, NRI: "on", CDI: "on", Differences: "none"},
		{
			Component: Containerd, From: "2.3.0", Before: "2.3.3", Status: NotSupported, Remark: leak, Doctor: "warning",
			NRI: "on", CDI: "on", Differences: "none",
		},
		{Component: Containerd, From: "2.2.6", Before: "2.3", Status: Expected, Lanes: []string{"e2e-containerd-2.2"}, NRI: "on", CDI: "on", Differences: "none"},
		{
			Component: Containerd, From: "2.1", Before: "2.2.6", Status: NotSupported, Remark: "as 2.3.0", Doctor: "warning",
			NRI: "on", CDI: "on", Differences: "none",
		},
		{
			Component: Containerd, From: "2.0", Before: "2.1", Status: NotSupported, Remark: "as 2.3.0", Doctor: "warning",
			NRI: "on", CDI: "on", Differences: noAddresses,
		},
		{
			Component: Containerd, From: "1.7", Before: "2.0", Status: NotSupported, Remark: "as 2.3.0, and NRI is off", Doctor: "warning",
			NRI: "off", CDI: "off", Differences: noAddresses,
		},
		{Component: Containerd, Before: "1.7", Status: NotSupported, Remark: "no NRI; `doctor` reports a blocker", Doctor: "blocker"},
		{Component: CRIO, From: "1.37", Status: Expected, NRI: "on", CDI: "on", Differences: "as 1.36, as far as known"},
		{Component: CRIO, From: "1.36", Before: "1.37", Status: Expected, Lanes: []string{"e2e-crio", "faults-crio"}, Remark: "[differences](../install/runtimes.md#cri-o). Drop-in, upgrade, conformance and 1,000 pod lives ran once with it, on 2026-11-25", NRI: "on", CDI: "on", Differences: ofCRIO},
		{
			Component: CRIO, From: "1.34", Before: "1.36", Status: Expected, Remark: "`doctor` warns", Doctor: "warning",
			NRI: "on", CDI: "on", Differences: "as 1.36",
		},
		{
			Component: CRIO, Before: "1.34", Status: NotTried, Remark: "`doctor` warns", Doctor: "warning",
			NRI: "on since 1.30", CDI: "on since 1.30", Differences: "not read",
		},
		{Component: OtherRuntime, Status: NotSupported, Remark: "no NRI; `doctor` reports a blocker", Doctor: "blocker"},
		{Component: NRI, From: "0.12", Before: "0.13", Status: Expected, Lanes: []string{"faults", "faults-newest-nri", "core-faults"}, Remark: "what containerd 2.4 ships, and the newest"},
		{Component: Runc, From: "1.5", Before: "1.6", Status: Expected, Lanes: []string{"e2e-node", "e2e-crio"}, Remark: "with containerd and with CRI-O"},
		{Component: "crun", Status: Expected, Remark: "the gate is an OCI hook"},
	}
}

// NodeRows lists what nadra runs on of nodes.
func NodeRows() []Row {
	const buildMachine = "the build machine"
	lanes := []string{"e2e-node", "e2e-beside", "e2e-crio", "e2e-core", "e2e-containerd-2.3", "e2e-containerd-2.2"}
	return []Row{
		{Component: Linux, From: "6.18", Before: "6.19", Status: Expected, Lanes: lanes, Remark: buildMachine},
		{Component: Linux, From: "6.12", Before: "6.13", Status: Expected, Lanes: []string{"test-vm"}, Remark: "Debian, in the virtual machine"},
		{Component: Linux, From: "5.14", Status: Expected, Remark: "the kernel has cookies of network namespaces since 5.14"},
		{Component: Linux, Before: "5.14", Status: NotSupported, Remark: "`doctor` reports a blocker", Doctor: "blocker"},
		{Component: CgroupV1, Status: Expected, Lanes: lanes, Remark: buildMachine},
		{Component: CgroupV2, Status: Expected, Lanes: []string{"test-vm"}, Remark: "the virtual machine, without systemd. nadra does not use cgroups"},
		{Component: IPv6, Status: Expected, Lanes: []string{"e2e-ipv6", "e2e-crio"}},
		{Component: DualStack, Status: Expected, Lanes: []string{"e2e-dual", "e2e-beside"}, Remark: "IPv4 first"},
		{Component: ReadOnlyRoot, Status: Expected, Lanes: []string{"e2e-elsewhere"}, Remark: "of kubelet, NRI, CDI, CNI and nadra, by [flags](../install/distributions.md); image-based distributions themselves were not run"},
		{Component: "amd64", Status: Expected, Lanes: lanes, Remark: buildMachine},
		{Component: "arm64 and others", Status: Expected, Remark: "plain Go; `build/mkimage` takes `-arch`. No image was run"},
		{Component: "SELinux, AppArmor enforcing", Status: NotTried},
		{Component: "Windows", Status: NotSupported, Remark: "nadra leaves such nodes alone"},
	}
}

// table returns all rows.
func table() []Row { return slices.Concat(KubernetesRows(), RuntimeRows(), NodeRows()) }

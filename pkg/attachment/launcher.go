package attachment

// The label of the launcher pods of KubeVirt's virtual machines.
const (
	LauncherLabel = "kubevirt.io"
	Launcher      = "virt-launcher"
)

// IsLauncher reports whether a pod with these labels is the launcher pod of a virtual machine.
func IsLauncher(labels map[string]string) bool { return labels[LauncherLabel] == Launcher }

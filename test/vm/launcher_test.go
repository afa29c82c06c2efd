//go:build e2e

package vm

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestLauncherWithFunction runs a pod like the launcher pod of a KubeVirt machine with an SR-IOV binding, whose virtual
// function has a driver for user space. The launcher passes the function to the guest: it needs the device files, and
// KubeVirt takes the function's address from network-status. Such a pod never restarts a container.
func TestLauncherWithFunction(t *testing.T) {
	const link = "pf1v2"
	address := function(t, link)
	f := scenario(t, "launcher", preparation{
		do:   bindScript(address, "vfio-pci"),
		undo: bindScript(address, "igbvf") + "\n" + nameScript(address, link),
	})
	f.pools(map[string][]string{"launcher": {"pf1#2"}}, nil)
	f.poolNAD("vf", "intel.com/launcher", object{"type": "host-device"})
	pod := lab.Pod(f.ns, "db", "db")
	pod.Labels = map[string]string{attachment.LauncherLabel: attachment.Launcher}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	f.createPodOf(pod, "vf")
	p, _ := f.ready("db")
	testCase(t, "a launcher has the files and the address of its function", func(t *testing.T) {
		group := strings.TrimSpace(f.shell("basename $(readlink /sys/bus/pci/devices/" + address + "/iommu_group)"))
		if listed := strings.Fields(f.in(t, "db", "ls /dev/vfio")); !slices.Contains(listed, group) || !slices.Contains(listed, "vfio") {
			t.Errorf("/dev/vfio has %v, and the IOMMU group is %s", listed, group)
		}
		status, err := f.NetworkStatus(f.ctx, f.ns, "db")
		f.must(err)
		last := status[len(status)-1]
		if last.DeviceInfo == nil || last.DeviceInfo.Pci == nil || last.DeviceInfo.Pci.PciAddress != address {
			t.Errorf("network-status has device information %+v, want the function %s", last.DeviceInfo, address)
		}
		if s := p.Status.ContainerStatuses[0]; s.RestartCount > 0 {
			t.Errorf("the container was restarted: %+v", s)
		}
	})
	testCase(t, "and the function of a launcher is free again", f.leavesNothing)
}

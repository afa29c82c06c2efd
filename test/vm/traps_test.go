//go:build e2e

package vm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/lab"
	"github.com/nadra-dev/nadra/test/vm/wire"
)

// Tests of failures around virtual functions. In the end each function must be the host's
// again, with its name and address, which leavesNothing checks.

// TestNamespaceIsLost kills the pod's processes and its network namespace with them, so
// that the kernel returns the function to the host under the pod's name. The pod must get
// the function again. nadra must reset the settings that a plugin has made at the physical
// function, because many plugins, such as sriov-cni, do not without a namespace.
func TestNamespaceIsLost(t *testing.T) {
	f := scenario(t, "lost", standIn("at-pf", fmt.Sprintf(
		"agent vf pf0 2 vlan=100 mac=%s spoofchk=off rate=200 trust=on; agent vf pf0 3 vlan=200 mac=02:00:00:00:09:03", podMAC)))
	f.pools(map[string][]string{"lost": {"pf0#2-3"}}, nil)
	f.poolNAD("one", "intel.com/lost", object{"type": "host-device", "ipam": f.hostLocal()}, object{"type": "at-pf"})
	f.createOf("a", "one", "one")
	pod, _ := f.ready("a")
	host, err := f.Guest.Net(f.ctx)
	f.must(err)
	if set := (wire.VF{Index: 2, MAC: podMAC, VLAN: 100, MaxRate: 200, Trust: true}); host.Link("pf0").VFs[2] != set {
		t.Fatalf("the PF has set %+v, not %+v", host.Link("pf0").VFs[2], set)
	}
	if set := (wire.VF{Index: 3, MAC: "02:00:00:00:09:03", VLAN: 200, SpoofCheck: true}); host.Link("pf0").VFs[3] != set {
		t.Fatalf("the PF has set %+v, not %+v", host.Link("pf0").VFs[3], set)
	}
	testCase(t, "a VF whose namespace is lost goes to the pod's next sandbox", func(t *testing.T) {
		f.shell(killPod(pod, f.claimOf(t, pod)))
		err := lab.Eventually(f.ctx, 2*podLimit, func(ctx context.Context) error {
			seen, err := f.Guest.PodNet(ctx, pod)
			if err != nil {
				return err
			}
			if seen.Link("net1") == nil || seen.Link("net2") == nil {
				return fmt.Errorf("the pod has %+v", seen.Links)
			}
			return f.isReady(ctx, "a")
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	testCase(t, "and is restored in the end", f.leavesNothing)
}

// killPod returns a script that kills all processes of a pod at once and removes its
// namespace's file.
func killPod(pod *corev1.Pod, claim string) string {
	return fmt.Sprintf(`
ns=$(%s)
umount $ns && rm $ns
for p in /proc/[0-9]*; do busybox grep -q %s $p/cgroup 2>/dev/null && kill -9 ${p#/proc/}; done
true`, namespaceScript(claim), pod.UID)
}

// namespaceScript returns a script that prints the file of the network namespace of a
// claim's pod.
func namespaceScript(claim string) string {
	return fmt.Sprintf(`busybox grep -o '/run/netns/[^"]*' /var/lib/nadra/claims/%s.json | busybox head -n 1`, claim)
}

func (f *fixture) claimOf(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	claim, err := f.Claim(f.ctx, pod)
	if err != nil {
		t.Fatal(err)
	}
	return string(claim.UID)
}

func (f *fixture) pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod, err := f.Kube.CoreV1().Pods(f.ns).Get(f.ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func (f *fixture) isReady(ctx context.Context, name string) error {
	pod, err := f.Kube.CoreV1().Pods(f.ns).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("pod %s is not Ready", name)
}

// standIn returns a preparation that installs a CNI plugin for the end of a chain, which
// runs a script in ADD and does nothing in DEL.
func standIn(name, add string) preparation {
	file := "/opt/cni/bin/" + name
	return preparation{
		do: fmt.Sprintf(`cat >%[2]s <<'END'
#!/bin/sh
input=$(cat)
case $CNI_COMMAND in
VERSION) echo '{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0","1.1.0"]}' ;;
ADD)
	%[3]s
	echo "$input" | busybox sed 's/.*"prevResult"://; s/,"type":"%[1]s"}$//' ;;
esac
END
busybox chmod 755 %[2]s`, name, file, add),
		undo: "rm -f " + file,
	}
}

// TestDriverDiesWhileAttaching kills the driver when the function is in the pod and no
// record says so yet.
func TestDriverDiesWhileAttaching(t *testing.T) {
	// Its ADD takes long while a file exists.
	slow := standIn("slow", "[ -e /run/slow ] && busybox sleep 60")
	f := scenario(t, "dies", slow, preparation{do: ": >/run/slow", undo: "rm -f /run/slow"})
	f.pools(map[string][]string{"dies": {"pf0#2"}}, nil)
	f.poolNAD("one", "intel.com/dies", object{"type": "host-device", "ipam": f.hostLocal()}, object{"type": "slow"})
	f.createOf("a", "one")
	testCase(t, "a driver that dies between ADD and its record starts again", func(t *testing.T) {
		err := lab.Eventually(f.ctx, podLimit, func(ctx context.Context) error {
			seen, err := f.Guest.Net(ctx)
			if err == nil && seen.Link("pf0v2") != nil {
				err = errors.New("the guest still has pf0v2")
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		f.shell(`for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" = nadra-node ] && kill -9 ${p#/proc/}; done
rm /run/slow`)
		_, seen := f.ready("a")
		if seen.Link("net1") == nil {
			t.Errorf("the pod has %+v", seen.Links)
		}
	})
	testCase(t, "and the VF goes back", f.leavesNothing)
}

// TestLinkGoesDown checks that no pod is scheduled to the functions of a card while its
// link is down.
func TestLinkGoesDown(t *testing.T) {
	f := scenario(t, "link", preparation{do: "true", undo: "ip link set pf1 up"})
	f.pools(map[string][]string{"link": {"pf1#2"}}, nil)
	f.poolNAD("one", "intel.com/link", object{"type": "host-device", "ipam": f.hostLocal()})
	tainted := func(want bool) {
		f.Helper()
		err := lab.Eventually(f.ctx, podLimit, func(ctx context.Context) error {
			list, err := f.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + lab.DriverName})
			if err != nil {
				return err
			}
			for _, s := range list.Items {
				for _, d := range s.Spec.Devices {
					if pool := d.Attributes["k8s.cni.cncf.io/resourceName"].StringValue; pool != nil && *pool == "intel.com/link" && (len(d.Taints) > 0) == want {
						return nil
					}
				}
			}
			return fmt.Errorf("no device of intel.com/link of which it holds that it is tainted: %v", want)
		})
		f.must(err)
	}
	testCase(t, "a VF of a card whose link is down gets no pod", func(t *testing.T) {
		tainted(false)
		f.shell("ip link set pf1 down")
		tainted(true)
		f.createOf("a", "one")
		err := lab.Eventually(f.ctx, podLimit, func(ctx context.Context) error {
			printed := strings.Join(f.Events(ctx, f.ns, "a"), "\n")
			if !strings.Contains(printed, "FailedScheduling") {
				return fmt.Errorf("the pod's events: %s", printed)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		f.shell("ip link set pf1 up")
		tainted(false)
		f.ready("a")
	})
	testCase(t, "and goes back", f.leavesNothing)
}

// TestInterfaceVanishes removes the interface of a pod's function, as a changed number of
// virtual functions or another driver does. The pod must be deletable, and other pods must
// run on. (The kernel cannot remove a single virtual function.)
func TestInterfaceVanishes(t *testing.T) {
	const link = "pf1v3"
	address := function(t, link)
	f := scenario(t, "vanishes")
	f.pools(map[string][]string{"vanishes": {"pf1#2-3"}}, nil)
	f.poolNAD("one", "intel.com/vanishes", object{"type": "host-device", "ipam": f.hostLocal()})
	f.createOf("a", "one")
	f.createOf("b", "one")
	f.ready("a")
	f.ready("b")
	holder, other := "a", "b"
	if f.functionOf(t, "a") != address {
		holder, other = "b", "a"
	}
	testCase(t, "a pod whose VF vanishes can be deleted, and others go on", func(t *testing.T) {
		f.shell("echo " + address + " >/sys/bus/pci/devices/" + address + "/driver/unbind")
		if out, err := f.Cluster.Kubectl(f.ctx, "-n", f.ns, "delete", "pod", holder, "--timeout=120s"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if err := f.isReady(f.ctx, other); err != nil {
			t.Errorf("the pod with the other VF: %v", err)
		}
	})
	// host-device's DEL fails for a function without a driver. It stays pending, and no
	// other pod gets the function, until the driver is back. Then nadra restores the
	// interface's name.
	testCase(t, "and the VF is restored when its driver is back", func(t *testing.T) {
		f.shell("echo " + address + " >/sys/bus/pci/drivers/igbvf/bind")
		f.leavesNothing(t)
	})
}

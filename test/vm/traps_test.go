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

// What goes wrong around virtual functions: in the end each is the host's again,
// under its name and with its address, which leavesNothing looks at.

// The pod's processes are killed and its network namespace with them: the kernel
// gives the function back under the pod's name. The pod comes back with it. What a
// plugin had set for it at the physical function is nadra's to take back: many do
// not where there is no namespace, as sriov-cni.
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
	testCase(t, "and then home", f.leavesNothing)
}

// killPod ends all processes of a pod at once and removes its namespace's file.
func killPod(pod *corev1.Pod, claim string) string {
	return fmt.Sprintf(`
ns=$(%s)
umount $ns && rm $ns
for p in /proc/[0-9]*; do busybox grep -q %s $p/cgroup 2>/dev/null && kill -9 ${p#/proc/}; done
true`, namespaceScript(claim), pod.UID)
}

// namespaceScript prints the network namespace's file of a claim's pod.
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

// standIn makes a CNI plugin for the end of a chain that does one thing in ADD and
// nothing in DEL.
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

// The driver is killed when the function is in the pod and nothing says so yet.
func TestDriverDiesWhileAttaching(t *testing.T) {
	// Its ADD takes long while a file says so.
	slow := standIn("slow", "[ -e /run/slow ] && busybox sleep 60")
	f := scenario(t, "dies", slow, preparation{do: ": >/run/slow", undo: "rm -f /run/slow"})
	f.pools(map[string][]string{"dies": {"pf0#2"}}, nil)
	f.poolNAD("one", "intel.com/dies", object{"type": "host-device", "ipam": f.hostLocal()}, object{"type": "slow"})
	f.createOf("a", "one")
	testCase(t, "a driver that dies between ADD and its record begins anew", func(t *testing.T) {
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

// While the link of a card is down nothing new is scheduled to its functions.
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

// A function's interface vanishes from under a pod, as when somebody changes the
// number of virtual functions or binds another driver: the pod can be deleted, and
// others go on. (The kernel lets nobody remove a single virtual function.)
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
	// host-device's DEL fails for a function without a driver: it stays owed, and
	// the function nobody else's, until there is one. Then nadra gives the
	// interface its name.
	testCase(t, "and the VF comes home when its driver is back", func(t *testing.T) {
		f.shell("echo " + address + " >/sys/bus/pci/drivers/igbvf/bind")
		f.leavesNothing(t)
	})
}

//go:build e2e

package vm

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/lab"
	"github.com/nadra-dev/nadra/test/vm/wire"
)

// Tests of sriov-cni, which sets up a virtual function at the physical one, and records
// that in files. leavesNothing checks that all of it is undone.

// sriovFiles is the directory of sriov-cni's data for DEL. Below pci it records which
// function is in which network namespace.
const sriovFiles = "/var/lib/cni/sriov"

// listed returns the names of the files in a folder of the guest.
func (f *fixture) listed(folder string) []string {
	f.Helper()
	return strings.Fields(f.shell("cd " + folder + " 2>/dev/null && find . -maxdepth 1 -type f | busybox sed 's|^./||' || true"))
}

// TestSRIOV runs a pod with two networks of one pool and one plugin. One network sets
// everything that igb supports for a physical function, the other nothing.
func TestSRIOV(t *testing.T) {
	const twoOfOne, atThePF, files, back = "two networks of one pool get two VFs", "the PF has the network's settings",
		"its files are of the pod's VFs", "and all is undone"
	if !haveSRIOV(t, twoOfOne, atThePF, files, back) {
		return
	}
	want := []string{function(t, "pf0v2"), function(t, "pf0v3")}
	f := scenario(t, "sriov")
	f.pools(map[string][]string{"sriov": {"pf0#2-3"}}, nil)
	f.poolNAD("set", "intel.com/sriov", object{
		"type": "sriov", "ipam": f.hostLocal(), "vlan": 100, "vlanQoS": 3, "mac": podMAC, "trust": "on", "spoofchk": "off", "max_tx_rate": 200,
	})
	f.poolNAD("plain", "intel.com/sriov", object{"type": "sriov", "ipam": f.hostLocal()})
	f.createOf("a", "set", "plain")
	_, inPod := f.ready("a")
	host, err := f.Guest.Net(f.ctx)
	f.must(err)
	given := f.functionsOf(t, "a")

	testCase(t, twoOfOne, func(t *testing.T) {
		requireLink(t, inPod, "net1", "device", "")
		requireLink(t, inPod, "net2", "device", "")
		if both := []string{given["net1"], given["net2"]}; !sameElements(both, want) {
			t.Errorf("the pod was given %v, not %v", both, want)
		}
		if host.Link("pf0v2") != nil || host.Link("pf0v3") != nil {
			t.Error("the guest has the virtual functions, too")
		}
	})
	testCase(t, atThePF, func(t *testing.T) {
		if link := inPod.Link("net1"); link.MAC != podMAC {
			t.Errorf("the pod's interface has MAC %s, not %s", link.MAC, podMAC)
		}
		index, other := 2, 3
		if given["net1"] != want[0] {
			index, other = 3, 2
		}
		set := wire.VF{Index: index, MAC: podMAC, VLAN: 100, Qos: 3, Trust: true, MaxRate: 200}
		if got := host.Link("pf0").VFs[index]; got != set {
			t.Errorf("the PF has set %+v, not %+v", got, set)
		}
		if got, was := fmt.Sprintf("%+v", host.Link("pf0").VFs[other]), fmt.Sprintf("what pf0 has set: {Index:%d ", other); !slices.ContainsFunc(f.before, func(line string) bool {
			return strings.HasPrefix(line, was) && strings.HasSuffix(line, got)
		}) {
			t.Errorf("for the other VF the PF has set %s, and before: %v", got, f.before)
		}
	})
	testCase(t, files, func(t *testing.T) {
		if allocated := f.listed(path.Join(sriovFiles, "pci")); !sameElements(allocated, want) {
			t.Errorf("allocated are %v, not %v", allocated, want)
		}
		if kept := f.listed(sriovFiles); len(kept) != 2 {
			t.Errorf("for DEL it keeps %v, and not a file for each of two networks", kept)
		}
	})
	testCase(t, back, f.leavesNothing)
}

// podMAC is an address that a network asks for.
const podMAC = "02:00:00:00:09:01"

func sameElements(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// TestSRIOVNamespaceIsLost destroys the pod's network namespace and deletes the pod, which
// gets no other one. Without a namespace sriov-cni's DEL neither resets the physical
// function's settings nor removes its record of the allocation. nadra must do the first,
// and sriov-cni's next ADD of the function does the second.
func TestSRIOVNamespaceIsLost(t *testing.T) {
	const home, next, back = "a VF by sriov-cni whose namespace is lost is restored", "its allocation, which stays, keeps no pod from having it", "and all is undone in the end"
	if !haveSRIOV(t, home, next, back) {
		return
	}
	address := function(t, "pf1v2")
	f := scenario(t, "sriov-lost")
	f.pools(map[string][]string{"lost": {"pf1#2"}}, nil)
	f.poolNAD("one", "intel.com/lost", object{
		"type": "sriov", "ipam": f.hostLocal(), "vlan": 100, "mac": podMAC, "trust": "on", "spoofchk": "off",
	})
	// Its containers are not restarted.
	never := lab.Pod(f.ns, "a", "a")
	never.Spec.RestartPolicy = corev1.RestartPolicyNever
	f.createPodOf(never, "one")
	pod, _ := f.ready("a")
	allocation := "file " + path.Join(sriovFiles, "pci", address)

	testCase(t, home, func(t *testing.T) {
		f.shell(killPod(pod, f.claimOf(t, pod)))
		if err := f.DeletePod(f.ctx, f.ns, "a"); err != nil {
			t.Fatal(err)
		}
		f.isAsBefore(t, allocation)
	})
	testCase(t, next, func(t *testing.T) {
		f.createOf("b", "one")
		b, _ := f.ready("b")
		recorded := f.shell("cat " + path.Join(sriovFiles, "pci", address))
		if live := f.shell(namespaceScript(f.claimOf(t, b))); path.Base(strings.TrimSpace(recorded)) != path.Base(strings.TrimSpace(live)) {
			t.Errorf("the VF is allocated to %s, and the pod's namespace is %s", recorded, live)
		}
	})
	testCase(t, back, f.leavesNothing)
}

// TestSRIOVRefuses requests settings that igb refuses, and expects sriov-cni's errors.
// sriov-cni itself does not reset a VLAN that it has set before igb refused the link state,
// and leaves the interface in the pod if igb refuses its address.
func TestSRIOVRefuses(t *testing.T) {
	refusals := []struct {
		pod, pf string
		conf    object
		words   string
	}{
		{"mac-without-trust", "pf0#2", object{"vlan": 100, "mac": podMAC}, "failed to set netlink MAC address to " + podMAC + ": cannot assign requested address"},
		{"link-state", "pf1#2", object{"vlan": 100, "link_state": "enable"}, "link state to 1: operation not supported"},
	}
	var cases []string
	for _, r := range refusals {
		cases = append(cases, r.pod)
	}
	const back = "what is refused leaves nothing behind"
	if !haveSRIOV(t, append(cases, back)...) {
		return
	}
	f := scenario(t, "sriov-refuses")
	pools := map[string][]string{}
	for _, r := range refusals {
		pools[r.pod] = []string{r.pf}
	}
	f.pools(pools, nil)
	for _, r := range refusals {
		r.conf["type"], r.conf["ipam"] = "sriov", f.hostLocal()
		f.poolNAD(r.pod, "intel.com/"+r.pod, r.conf)
		f.createOf(r.pod, r.pod)
	}
	for _, r := range refusals {
		testCase(t, r.pod, func(t *testing.T) { f.isRefused(t, r.pod, r.words) })
	}
	testCase(t, back, f.leavesNothing)
}

// TestKernelRefuses sets a function's address at the physical one, as an administrator
// does. The kernel then refuses every other address, and plugins that do not know SR-IOV
// must report its error.
func TestKernelRefuses(t *testing.T) {
	seen, err := theLane.Guest.Net(interrupted)
	if err != nil {
		t.Fatal(err)
	}
	f := scenario(t, "refused", preparation{
		// The function adopts it when it is reset, as setting it down does.
		do:   "agent vf pf0 2 mac=02:00:00:00:09:02; ip link set pf0v2 up; ip link set pf0v2 down",
		undo: "agent vf pf0 2 mac=00:00:00:00:00:00; ip link set pf0v2 address " + seen.Link("pf0v2").MAC,
	})
	f.pools(map[string][]string{"refused": {"pf0#2"}}, nil)
	f.poolNAD("other", "intel.com/refused",
		object{"type": "host-device", "ipam": f.hostLocal()}, object{"type": "tuning", "mac": podMAC})
	f.createOf("a", "other")
	testCase(t, "an address that the PF does not allow, in the plugin's words", func(t *testing.T) {
		f.isRefused(t, "a", "cannot assign requested address")
	})
	testCase(t, "and leaves nothing behind", f.leavesNothing)
}

// isRefused waits until a pod's Event and its claim's status have a plugin's error, and
// fails the test if the pod has started.
func (f *fixture) isRefused(t *testing.T, name, words string) {
	t.Helper()
	err := lab.Eventually(f.ctx, podLimit, func(ctx context.Context) error {
		events := f.Events(ctx, f.ns, name)
		if !slices.ContainsFunc(events, func(e string) bool {
			return strings.HasPrefix(e, reason.EventFailedAttachNetwork+": ") && strings.Contains(e, lab.Code(reason.PluginFailed)) && strings.Contains(e, words)
		}) {
			return fmt.Errorf("no Event contains %q: %s", words, strings.Join(events, "\n"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	pod := f.pod(t, name)
	err = lab.Eventually(f.ctx, podLimit, func(ctx context.Context) error {
		claim, err := f.Claim(ctx, pod)
		if err != nil {
			return err
		}
		for _, device := range claim.Status.Devices {
			for _, c := range device.Conditions {
				if c.Type == "Ready" && c.Status == "False" && strings.Contains(c.Message, words) {
					return nil
				}
			}
		}
		return fmt.Errorf("the claim does not say %q: %+v", words, claim.Status.Devices)
	})
	if err != nil {
		t.Error(err)
	}
	for _, c := range f.pod(t, name).Status.ContainerStatuses {
		if lab.HasRun(c) {
			t.Errorf("container %s has run without its network: %+v, before %+v", c.Name, c.State, c.LastTerminationState)
		}
	}
}

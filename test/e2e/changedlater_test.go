//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestCorrectedNAD corrects a NAD whose plugin fails while pods wait for it, one of which is never restarted: both must
// start with the correction, and nobody deletes them. A later change reaches no running pod, and its deletion leaves nothing.
func TestCorrectedNAD(t *testing.T) {
	f := setup(t, "corrected")
	f.master("lan0")
	conf := func(mtu int) string {
		return fmt.Sprintf(`{"cniVersion":"0.4.0","name":"corrected","type":"macvlan","master":"lan0","mode":"bridge","mtu":%d,
			"ipam":{"type":"host-local","subnet":"10.81.0.0/24"}}`, mtu)
	}
	f.nad("jumbo", conf(9000))
	_, err := f.Create(f.Ctx, f.NS, "web", lab.Want{Network: "jumbo"})
	f.Must(err)
	never := lab.Pod(f.NS, "job", "web")
	never.Spec.RestartPolicy = "Never"
	_, err = f.CreatePod(f.Ctx, never)
	f.Must(err)
	for _, pod := range []string{"web", "job"} {
		f.Eventually(time.Minute, f.podEvent(pod, reason.EventFailedAttachNetwork, lab.Code(reason.PluginFailed)))
	}
	f.Must(f.updateNAD("jumbo", conf(1400)))
	began := time.Now()
	for _, name := range []string{"web", "job"} {
		pod, err := f.Ready(f.Ctx, f.NS, name, time.Minute)
		f.Must(err)
		t.Logf("pod %s is Ready %s after the correction", name, time.Since(began).Round(100*time.Millisecond))
		f.linkHas(f.inside(pod), "mtu 1400")
	}
	f.Must(f.updateNAD("jumbo", strings.Replace(conf(1300), "10.81.", "10.82.", 1)))
	f.runsOn("web", "net1", "10.81.0.")
	for _, name := range []string{"web", "job"} {
		f.Must(f.DeletePod(f.Ctx, f.NS, name))
	}
}

// linkHas fails the test unless net1 has a property.
func (f *fixture) linkHas(inside, property string) {
	f.Helper()
	if got := f.sh(inside + "ip -o link show net1"); !strings.Contains(got, property) {
		f.Errorf("net1 lacks %s: %s", property, got)
	}
}

// TestMasterGoes deletes and recreates the master of a running pod's network, as network managers do. The pod's
// interface is gone for good, which its event and the claim must say at once. The pod runs on, and the next one is right.
func TestMasterGoes(t *testing.T) {
	f := setup(t, "master-goes")
	f.master("lan6")
	f.nad("lan", strings.NewReplacer("lan0", "lan6", "10.50.", "10.83.").Replace(macvlanConf))
	pod := f.start("web", lab.Want{Network: "lan"})
	f.sh("ip link del lan6")
	began := time.Now()
	f.Must(lab.MakeLink(f.Ctx, f.node, "lan6"))
	f.Eventually(time.Minute, f.event("web", reason.EventFailedCheckNetwork, 1, lab.Code(reason.AttachmentChanged), "master-goes/lan", "interface net1 "))
	took := time.Since(began)
	t.Logf("reported %s after the master was gone", took.Round(100*time.Millisecond))
	if took > 15*time.Second {
		t.Error("it was found by the sweep every 30 s, not because the master was gone")
	}
	if stored, err := storesDeviceStatus(); err == nil && stored {
		f.claimWhen(pod, ready("CheckFailed", ""))
	}
	if list := f.Kubectl("get", "pods"); !strings.Contains(list, "Running") {
		t.Errorf("the pod does not run: %s", list)
	}
	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))
	f.start("next", lab.Want{Network: "lan"})
	f.Must(f.DeletePod(f.Ctx, f.NS, "next"))
}

// TestDuplicateIPv6Address gives two pods the same IPv6 address. The second must not start before the first is gone, and
// then at once with an address that is its own.
func TestDuplicateIPv6Address(t *testing.T) {
	f := setup(t, "duplicate")
	f.master("lan0")
	f.nad("sig", `{"cniVersion":"0.4.0","name":"duplicate","type":"macvlan","master":"lan0","mode":"bridge","capabilities":{"ips":true},"ipam":{"type":"static"}}`)
	want := lab.Want{Network: "sig", Config: map[string]any{"ips": []string{"2001:db8:3::1/64"}}}
	began := time.Now()
	first := f.start("a", want)
	t.Logf("a pod with an IPv6 address of static is Ready after %s", time.Since(began).Round(100*time.Millisecond))
	f.settled(f.inside(first))
	_, err := f.Create(f.Ctx, f.NS, "b", want)
	f.Must(err)
	f.Eventually(time.Minute, f.podEvent("b", reason.EventFailedAttachNetwork, lab.Code(reason.AddressDuplicate), "2001:db8:3::1"))
	f.Must(f.hasRun("b"))
	f.Must(f.DeletePod(f.Ctx, f.NS, "a"))
	gone := time.Now()
	second, err := f.Ready(f.Ctx, f.NS, "b", time.Minute)
	f.Must(err)
	t.Logf("the second pod is Ready %s after the first is gone", time.Since(gone).Round(100*time.Millisecond))
	f.settled(f.inside(second))
	f.Must(f.DeletePod(f.Ctx, f.NS, "b"))
}

// settled fails the test unless the address of net1 is the pod's own.
func (f *fixture) settled(inside string) {
	f.Helper()
	got := f.sh(inside + "ip -6 -o addr show dev net1 scope global")
	if !strings.Contains(got, "2001:db8:3::1") || strings.Contains(got, "tentative") || strings.Contains(got, "dadfailed") {
		f.Errorf("the address of a started pod: %s", got)
	}
}

package nodecmd

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

// init keeps the tests off the process's first thread, where only TestMain runs: a thread that
// enters a namespace is not used again, but the first one cannot end, and /proc/self would
// show its namespace from then on.
func init() { runtime.LockOSThread() }

const podUID, otherUID = "0a1b2c3d-1111-2222-3333-444455556666", "ffffffff-1111-2222-3333-444455556666"

func containerID(digit string) string { return strings.Repeat(digit, 64) }

// proc adds a process to a tree.
func proc(files map[string]string, pid, uid, container, inner, ns, environ string) {
	files["proc/"+pid+"/cgroup"] = "0::/kubepods/burstable/pod" + uid + "/" + container + "\n"
	files["proc/"+pid+"/status"] = "Name:\tx\nNSpid:\t" + pid + "\t" + inner + "\n"
	files["proc/"+pid+"/ns/net"] = "->net:[" + ns + "]"
	files["proc/"+pid+"/environ"] = environ
}

// podsTree returns a node with a pod of two containers and a sandbox, a pod on the host's
// network, and processes outside of pods.
func podsTree(t *testing.T) string {
	files := map[string]string{
		"proc/1/cgroup": "0::/init.scope\n", "proc/1/ns/net": "->net:[1]", "proc/self": "->1",
		"proc/9/status": "Name:\tended\n",
	}
	proc(files, "100", podUID, containerID("a"), "1", "2", "PAUSE=1\x00")
	proc(files, "110", podUID, containerID("b"), "1", "2", "PCIDEVICE_X=1\x00SECRET=2\x00")
	proc(files, "111", podUID, containerID("b"), "7", "2", "PCIDEVICE_X=of a child\x00")
	proc(files, "120", podUID, containerID("c"), "1", "3", "") // in a namespace that it has made itself
	proc(files, "50", otherUID, containerID("d"), "1", "1", "")
	return tree(t, files)
}

func TestProbePods(t *testing.T) {
	root := podsTree(t)
	var asked []string
	o := PodOptions{
		Root: root, VFs: func() ([]probe.VF, error) { return []probe.VF{{PCI: "0000:03:02.0"}}, errors.New("half") },
		Inside: func(path string) (probe.Pod, error) {
			asked = append(asked, strings.TrimPrefix(path, root))
			return probe.Pod{Links: []probe.Link{{Name: "net1"}}}, nil
		},
	}
	var got []probe.Pod
	write := func(r probe.PodReport) error { got = append(got, r.Pod); return nil }
	end, err := ProbePods(t.Context(), o, write)
	if err != nil {
		t.Fatal(err)
	}
	want := []probe.Pod{
		{UID: podUID, Links: []probe.Link{{Name: "net1"}}, Containers: []probe.Container{
			{ID: containerID("a")}, {ID: containerID("b"), Env: map[string]string{"PCIDEVICE_X": "1"}}, {ID: containerID("c")},
		}},
		{UID: otherUID, HostNetwork: true, Containers: []probe.Container{{ID: containerID("d")}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if len(asked) != 1 || asked[0] != "/proc/100/ns/net" {
		t.Errorf("it looked at %q", asked)
	}
	wantEnd := probe.PodsReport{
		APIVersion: probe.APIVersion, Kind: probe.PodsKind, Count: 2, VFs: []probe.VF{{PCI: "0000:03:02.0"}},
		Errors: []string{"listing virtual functions: half"},
	}
	if diff := cmp.Diff(wantEnd, end); diff != "" {
		t.Errorf("the end (-want +got):\n%s", diff)
	}

	got, o.UIDs = nil, []string{otherUID}
	if _, err := ProbePods(t.Context(), o, write); err != nil || len(got) != 1 || got[0].UID != otherUID {
		t.Errorf("one pod: %+v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ProbePods(ctx, o, write); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

// TestProbePodFails checks that a pod's report has what could not be read, and that a pod
// which ends meanwhile is left out.
func TestProbePodFails(t *testing.T) {
	root := podsTree(t)
	o := PodOptions{Root: root, UIDs: []string{podUID}, VFs: func() ([]probe.VF, error) { return nil, nil }}
	var got []probe.Pod
	write := func(r probe.PodReport) error { got = append(got, r.Pod); return nil }
	o.Inside = func(string) (probe.Pod, error) { return probe.Pod{}, errors.New("no right") }
	if _, err := ProbePods(t.Context(), o, write); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || !cmp.Equal(got[0].Errors, []string{"no right"}) {
		t.Errorf("pods %+v", got)
	}
	got = nil
	o.Inside = func(string) (probe.Pod, error) {
		return probe.Pod{}, errors.Join(errors.New("gone"), os.RemoveAll(filepath.Join(root, "proc/100")))
	}
	end, err := ProbePods(t.Context(), o, write)
	if err != nil || len(got) != 0 || end.Count != 0 {
		t.Errorf("a pod that ended: %+v, %+v, %v", got, end, err)
	}
}

// TestInside describes a network namespace that the test has created.
func TestInside(t *testing.T) {
	runtime.LockOSThread() // and never unlocked: nobody else gets this thread
	before, err := newInside()
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		if os.Getenv("NADRA_LANE") == "ci" {
			t.Fatalf("making a network namespace: %v", err)
		}
		t.Skipf("needs the right to make a network namespace: %v", err)
	}
	a := netlink.NewLinkAttrs()
	a.Name = "net1"
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: "other"}))
	l, err := netlink.LinkByName("net1")
	must(t, err)
	must(t, netlink.LinkSetMTU(l, 1400))
	must(t, netlink.LinkSetUp(l))
	other, err := netlink.LinkByName("other")
	must(t, err)
	must(t, netlink.LinkSetUp(other))
	must(t, netlink.AddrAdd(l, &netlink.Addr{IPNet: prefix(t, "10.66.0.2/24")}))
	must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: prefix(t, "10.67.0.0/16"), Gw: net.ParseIP("10.66.0.1")}))
	must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: prefix(t, "0.0.0.0/0"), Gw: net.ParseIP("10.66.0.1"), Table: 100}))
	rule := netlink.NewRule()
	rule.Src, rule.Table, rule.Priority = prefix(t, "10.66.0.2/32"), 100, 500
	must(t, netlink.RuleAdd(rule))
	must(t, os.WriteFile("/proc/sys/net/ipv4/conf/net1/arp_filter", []byte("1"), 0))
	here, err := netns.Get()
	must(t, err)
	defer here.Close()

	done := make(chan struct{})
	var pod probe.Pod
	go func() { // on a thread of the first namespace
		defer close(done)
		pod, err = before.look("/proc/self/fd/" + strconv.Itoa(int(here)))
	}()
	<-done
	must(t, err)
	if len(pod.Links) != 2 || pod.Links[0].Name != "net1" {
		t.Fatalf("links %+v", pod.Links)
	}
	got := pod.Links[0]
	switch {
	case got.Kind != "veth" || got.MTU != 1400 || !got.Up || got.Lower != "other" || got.OnHost || got.PCI != "":
		t.Errorf("link %+v", got)
	case got.Addresses[0] != "10.66.0.2/24" || got.Sysctls["ipv4.arp_filter"] != "1":
		t.Errorf("addresses %q, sysctls %v", got.Addresses, got.Sysctls)
	case pod.Sysctls["net.ipv4.ip_forward"] == "":
		t.Errorf("sysctls %v", pod.Sysctls)
	}
	var routes []string
	for _, r := range pod.Routes {
		if !r.IPv6 {
			routes = append(routes, strings.TrimSpace(strconv.Itoa(r.Table)+" "+r.To+" via "+r.Via+" dev "+r.Interface+" "+r.Protocol))
		}
	}
	want := []string{"100 default via 10.66.0.1 dev net1 boot", "254 10.66.0.0/24 via  dev net1 kernel", "254 10.67.0.0/16 via 10.66.0.1 dev net1 boot"}
	if diff := cmp.Diff(want, routes); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	found := false
	for _, r := range pod.Rules {
		found = found || r == probe.Rule{Priority: 500, Table: 100, From: "10.66.0.2/32"}
	}
	if !found {
		t.Errorf("rules %+v", pod.Rules)
	}
}

func TestVFsOf(t *testing.T) {
	pf := &inventory.PF{PCIAddress: "0000:03:00.0", Name: "eth1"}
	all := inventory.Inventory{Functions: []inventory.Function{
		{Kind: inventory.KindPF, PCIAddress: "0000:03:00.0"},
		{Kind: inventory.KindVF, PCIAddress: "0000:03:02.0", PF: pf, Index: 0, Driver: "vfio-pci"},
		{Kind: inventory.KindVF, PCIAddress: "0000:03:02.1", PF: pf, Index: 1, Driver: "iavf"},
		{Kind: inventory.KindVF, PCIAddress: "0000:04:02.0", PF: &inventory.PF{}, Index: 0},
	}}
	asked := 0
	got, err := vfsOf(all, func(string) (map[int]probe.VF, error) {
		asked++
		return map[int]probe.VF{1: settingsFrom(netlink.VfInfo{ID: 1, Vlan: 100, VlanProto: 0xa888, Trust: 1, MaxTxRate: 500, LinkState: 1})}, nil
	})
	if err != nil || asked != 1 {
		t.Fatalf("asked %d times, %v", asked, err)
	}
	want := []probe.VF{
		{PCI: "0000:03:02.0", PF: "eth1", Driver: "vfio-pci"},
		{PCI: "0000:03:02.1", PF: "eth1", Index: 1, Driver: "iavf", VLAN: 100, Proto: "802.1ad", Trust: true, MaxRate: 500, LinkState: "enable"},
		{PCI: "0000:04:02.0"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
	if _, err := vfsOf(all, func(string) (map[int]probe.VF, error) { return nil, errors.New("no answer") }); err == nil {
		t.Error("a PF that does not answer is no error")
	}
}

func prefix(t *testing.T, s string) *net.IPNet {
	t.Helper()
	n, err := netlink.ParseIPNet(s)
	must(t, err)
	return n
}

// TestHugeFiles checks that an environment, an address' file and a configuration of any size are refused by their size:
// tenants write the first.
func TestHugeFiles(t *testing.T) {
	root := tree(t, map[string]string{"proc/7/environ": "PCIDEVICE_X=1\x00", "lease": "id\nnet1", "net.d/10-x.conf": `{"type":"bridge"}`})
	for _, name := range []string{"proc/7/environ", "lease", "net.d/10-x.conf"} {
		if err := os.Truncate(filepath.Join(root, name), 1<<40); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := environment(filepath.Join(root, "proc/7")); err == nil || got != nil {
		t.Errorf("an environment: %v, %v", got, err)
	}
	if id, _, _, err := readLease(filepath.Join(root, "lease")); err == nil || id != "" {
		t.Errorf("a lease: %.20q, %v", id, err)
	}
	l := inspection{host: host{root: root}}
	if got := l.configuration("/net.d/10-x.conf"); got.Error == "" {
		t.Errorf("a configuration: %+v", got)
	}
}

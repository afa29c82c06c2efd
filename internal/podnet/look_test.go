package podnet

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/cniexec"
)

// newNamespace makes a network namespace with two connected interfaces, and returns its path and what runs in it.
func newNamespace(tb testing.TB) (path string, do func(string)) {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("needs root")
	}
	name := fmt.Sprintf("look-%d-%d", os.Getpid(), time.Now().UnixNano())
	run := func(args ...string) {
		tb.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			tb.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	run("netns", "add", name)
	tb.Cleanup(func() { run("netns", "delete", name) })
	do = func(command string) {
		tb.Helper()
		if out, err := exec.Command("ip", "netns", "exec", name, "sh", "-ec", command).CombinedOutput(); err != nil {
			tb.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	do("ip link add net1 type veth peer name net2; ip link set net1 up; ip link set net2 up; ip addr add 10.0.0.5/24 dev net1")
	return filepath.Join("/run/netns", name), do
}

func newReader(tb testing.TB) *Reader {
	tb.Helper()
	namespaces, err := podns.New("/")
	if err != nil {
		tb.Fatal(err)
	}
	return NewReader(namespaces, func() string { return "" })
}

// TestLook reads a namespace of the kernel: an address in each state, one that goes, and an interface that goes.
func TestLook(t *testing.T) {
	path, do := newNamespace(t)
	p := newReader(t)
	made := map[string]cniexec.Interface{"net1": {IPs: []netip.Addr{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("fd00::5")}}, "net2": {}}
	lacks := func() []string {
		t.Helper()
		s, err := p.Look(path)
		if err != nil {
			t.Fatal(err)
		}
		return s.Lacks(made)
	}
	find := func(ip string) (Address, bool) {
		t.Helper()
		s, err := p.Look(path)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(s.Addresses, func(a Address) bool { return a.IP == netip.MustParseAddr(ip) })
		if i < 0 {
			return Address{}, false
		}
		return s.Addresses[i], true
	}
	eventually := func(what string, so func() bool) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); !so(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	if got := lacks(); !slices.Equal(got, []string{"address fd00::5 of interface net1 is gone"}) {
		t.Errorf("lacks %q", got)
	}
	do("ip addr add fd00::5/64 dev net1")
	if a, found := find("fd00::5"); !found || !a.Tentative || a.Duplicate || a.Interface != "net1" {
		t.Errorf("right after it was added: %+v, %t", a, found)
	}
	eventually("the address stays tentative", func() bool { a, found := find("fd00::5"); return found && !a.Tentative })
	if got := lacks(); len(got) != 0 {
		t.Errorf("lacks %q", got)
	}
	do("ip addr del 10.0.0.5/24 dev net1; ip addr add fd00::5/64 dev net2") // net1 has it
	made["net2"] = cniexec.Interface{IPs: []netip.Addr{netip.MustParseAddr("fd00::5")}}
	delete(made, "net1")
	eventually("the kernel does not find the duplicate", func() bool {
		return slices.Equal(lacks(), []string{"address fd00::5 of interface net2 is another host's, too"})
	})
	do("ip link del net1")
	if got := lacks(); !slices.Equal(got, []string{"interface net2 is gone"}) {
		t.Errorf("lacks %q", got)
	}
}

// TestRenamed renames an interface of the kernel: a look that knows its number finds it, one that does not goes by its
// MAC address, if only one interface that no plugin has made has it.
func TestRenamed(t *testing.T) {
	path, do := newNamespace(t)
	p := newReader(t)
	look := func() State {
		t.Helper()
		s, err := p.Look(path)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	do("ip link set net1 address 02:00:00:00:00:01")
	made := []string{"net1", "net2"}
	index := look().Index("net1", "", made)
	if index == 0 || look().Renamed(index, "net1") {
		t.Fatalf("net1 has number %d, renamed: %t", index, look().Renamed(index, "net1"))
	}
	do("ip link set net1 down; ip link set net1 name wan")
	if s := look(); !s.Renamed(index, "net1") || s.Index("net1", "02:00:00:00:00:01", made) != index {
		t.Errorf("it is not found under its new name: %+v", s.ByIndex)
	}
	for mac, made := range map[string][]string{"02:00:00:00:00:02": made, "": made, "02:00:00:00:00:01": {"net1", "wan"}} {
		if got := look().Index("net1", mac, made); got != 0 {
			t.Errorf("Index by MAC %q beside %v = %d", mac, made, got)
		}
	}
	do("ip link set net2 address 02:00:00:00:00:01")
	if got := look().Index("net1", "02:00:00:00:00:01", []string{"net1"}); got != 0 {
		t.Errorf("Index of one of two = %d", got)
	}
	do("ip link del wan")
	if look().Renamed(index, "net1") {
		t.Error("an interface that is gone was renamed")
	}
}

// BenchmarkLook looks into one namespace, as each sweep does for each pod.
func BenchmarkLook(b *testing.B) {
	path, _ := newNamespace(b)
	p := newReader(b)
	for b.Loop() {
		if _, err := p.Look(path); err != nil {
			b.Fatal(err)
		}
	}
}

// TestANamespaceWithTooMuch fills a namespace with addresses, as a pod can: only so many are read, and the namespace is
// still recognised.
func TestANamespaceWithTooMuch(t *testing.T) {
	path, do := newNamespace(t)
	p := newReader(t)
	do(fmt.Sprintf("awk 'BEGIN { for (i = 0; i <= %d; i++) printf \"addr add fd00::%%x/128 dev lo nodad\\n\", i }' | ip -batch -", maxAddresses))
	before, err := p.Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Look(path)
	if reason.Of(err) != reason.LimitExceeded || !strings.Contains(err.Error(), path) {
		t.Errorf("%d addresses: %v", len(s.Addresses), err)
	}
	if s.Cookie != before.Cookie {
		t.Errorf("cookie %d, want %d", s.Cookie, before.Cookie)
	}
	do("ip link add eth0 type veth peer name peer")
	if _, err := p.DefaultNetwork(attachment.Sandbox{NetNS: path}, nil); reason.Of(err) != reason.LimitExceeded {
		t.Errorf("describing the default network: %v", err)
	}
}

package nodecmd

import (
	"context"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/probe"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// alone puts the test's thread into a network namespace of its own, in which
// lo is up and net1 has addresses. What the thread opens stays there; what the
// code under test opens on other threads would not, so that these tests use one
// goroutine.
func alone(t *testing.T, pingGroups string) {
	t.Helper()
	runtime.LockOSThread() // and never unlocked: no other goroutine gets this thread
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		if os.Getenv("NADRA_LANE") == "ci" {
			t.Fatalf("making a network namespace: %v", err)
		}
		t.Skipf("needs the right to make a network namespace: %v", err)
	}
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	must(t, netlink.LinkSetUp(lo))
	a := netlink.NewLinkAttrs()
	a.Name = "net1"
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: "other"}))
	for _, name := range []string{"net1", "other"} {
		l, err := netlink.LinkByName(name)
		must(t, err)
		must(t, netlink.LinkSetUp(l))
	}
	net1, err := netlink.LinkByName("net1")
	must(t, err)
	for _, text := range []string{"10.66.0.2/24", "10.66.0.3/24"} {
		addr, err := netlink.ParseAddr(text)
		must(t, err)
		must(t, netlink.AddrAdd(net1, addr))
	}
	must(t, os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte(pingGroups), 0))
}

// answered is the wait for addresses that answer, unanswered for those that do not.
const (
	answered   = time.Minute
	unanswered = 100 * time.Millisecond
)

// one pings an address twice.
func one(t *testing.T, to string, wait time.Duration) probe.Ping {
	t.Helper()
	own, err := prefixes("net1")
	must(t, err)
	options := PingOptions{Interface: "net1", Count: 2, Wait: wait, Port: probe.CanaryPort}
	return options.one(t.Context(), own, netip.MustParseAddr(to))
}

func TestInspect(t *testing.T) {
	alone(t, "1 0")
	got, err := Inspect()
	must(t, err)
	found := false
	for _, l := range got.Links {
		found = found || l.Name == "net1" && l.Up && l.Running && l.MTU == 1500 && l.MAC != "" && l.Addresses[0] == "10.66.0.2/24"
	}
	if !found || len(got.Links) != 2 {
		t.Errorf("links %+v", got.Links)
	}
}

// The kernel answers echo requests if the sysctl permits them.
func TestPing(t *testing.T) {
	alone(t, "0 2147483647")
	got := one(t, "10.66.0.3", answered)
	if got.Method != probe.ICMP || got.Sent != 2 || got.Received != 2 || got.MedianMicros < 1 || got.Error != "" {
		t.Errorf("ping %+v", got)
	}
	// Nobody has this address: the interface's other end does not answer ARP.
	got = one(t, "10.66.0.99", unanswered)
	if got.Received != 0 || got.Sent != 2 || got.Via != "net1" || got.Error != "" {
		t.Errorf("an unused address: %+v", got)
	}
	if got := one(t, "fd00::1", unanswered); got.Sent != 0 || !strings.Contains(got.Error, "fd00::1") {
		t.Errorf("another family: %+v", got)
	}
	if got := one(t, "10.99.0.1", unanswered); !strings.Contains(got.Error, "unreachable") {
		t.Errorf("no route: %+v", got)
	}
}

// If ICMP is not permitted, the other canary answers by UDP.
func TestPingByUDP(t *testing.T) {
	alone(t, "1 0")
	if got := one(t, "10.66.0.3", unanswered); got.Method != probe.UDP || got.Received != 0 || got.Error != "" {
		t.Errorf("no listener: %+v", got)
	}
	socket, err := net.ListenPacket("udp", "10.66.0.3:47763")
	must(t, err)
	done := make(chan struct{})
	go func() { answer(socket); close(done) }()
	if got := one(t, "10.66.0.3", answered); got.Method != probe.UDP || got.Received != 2 {
		t.Errorf("ping %+v", got)
	}
	must(t, socket.Close())
	<-done
}

// Serve ends with its context.
func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, 0) }()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestSource(t *testing.T) {
	own := []netip.Prefix{netip.MustParsePrefix("10.1.0.5/24"), netip.MustParsePrefix("10.2.0.5/24"), netip.MustParsePrefix("fd00::5/64")}
	for to, want := range map[string]string{"10.2.0.9": "10.2.0.5", "10.9.0.9": "10.1.0.5", "fd00::9": "fd00::5", "fd01::9": "fd00::5"} {
		if got, ok := source(own, netip.MustParseAddr(to)); !ok || got.String() != want {
			t.Errorf("to %s: from %s, want %s", to, got, want)
		}
	}
	if _, ok := source(own[:2], netip.MustParseAddr("fd00::9")); ok {
		t.Error("a source of another family")
	}
}

// Answers come in the order of the targets.
func TestPingAll(t *testing.T) {
	got, err := PingAll(t.Context(), PingOptions{Interface: "absent", Count: 1, Wait: time.Millisecond}, []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")})
	if err != nil || len(got.Pings) != 2 || got.Pings[0].Address != "10.0.0.2" || got.Pings[1].Error == "" {
		t.Errorf("pings %+v, %v", got, err)
	}
}

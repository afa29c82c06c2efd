package podnet

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/cniexec"
)

// init keeps the tests off the process's first thread, as those of podns.
func init() { runtime.LockOSThread() }

// inNamespace makes a network namespace, in which setUp runs, and returns a Reader and the
// namespace's path. It skips the test if it cannot make one.
func inNamespace(t *testing.T, setUp func() error) (*Reader, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making a network namespace needs root")
	}
	namespaces, err := podns.New("/") // of this process's namespace
	if err != nil {
		t.Fatal(err)
	}
	ready, done := make(chan error), make(chan struct{})
	t.Cleanup(func() { close(done) })
	var path string
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		_, err := netns.New()
		if err == nil {
			path = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
			err = setUp()
		}
		ready <- err
		<-done
	}()
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	return NewReader(namespaces, func() string { return "cbr0" }), path
}

// addLink adds an interface with addresses to the present namespace.
func addLink(name string, addresses ...string) (netlink.Link, error) {
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "-peer"}
	if err := netlink.LinkAdd(link); err != nil {
		return nil, err
	}
	peer, err := netlink.LinkByName(link.PeerName)
	if err != nil {
		return nil, err
	}
	for _, l := range []netlink.Link{link, peer} {
		if err := netlink.LinkSetUp(l); err != nil {
			return nil, err
		}
	}
	for _, a := range addresses {
		addr, err := netlink.ParseAddr(a)
		if err != nil {
			return nil, err
		}
		addr.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(link, addr); err != nil {
			return nil, err
		}
	}
	return netlink.LinkByName(name)
}

// TestDefaultNetwork checks the entries of the default network: those that Multus makes of the
// runtime's result, and what is read from the namespace without one.
func TestDefaultNetwork(t *testing.T) {
	var mac string
	reader, path := inNamespace(t, func() error {
		link, err := addLink("eth0", "10.244.0.5/24", "fd00::5/64")
		if err != nil {
			return err
		}
		mac = link.Attrs().HardwareAddr.String()
		return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: address("10.244.0.1")})
	})
	const eth0MAC, udn1MAC = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
	read := nadv1.NetworkStatus{Name: "cbr0", Interface: "eth0", IPs: []string{"fd00::5", "10.244.0.5"}, Mac: mac, Gateway: []string{"10.244.0.1"}, Default: true}
	for _, tt := range []struct {
		name, result string
		want         []*nadv1.NetworkStatus
	}{
		{
			"one interface", `{"cniVersion":"0.3.1","interfaces":[{"name":"cni0"},{"name":"veth1"},{"name":"eth0","mac":"` + eth0MAC + `","sandbox":"/run/netns/1"}],
			"ips":[{"version":"4","interface":2,"address":"10.244.0.9/24","gateway":"10.244.0.1"}],"routes":[{"dst":"10.244.0.0/16"},{"dst":"0.0.0.0/0","gw":"10.244.0.1"}],"dns":{"nameservers":["10.0.0.1"]}}`,
			[]*nadv1.NetworkStatus{{Name: "ovn", Interface: "eth0", IPs: []string{"10.244.0.9"}, Mac: eth0MAC, Gateway: []string{"10.244.0.1"}, Default: true, DNS: nadv1.DNS{Nameservers: []string{"10.0.0.1"}}}},
		},
		{
			"the second interface has the gateway", `{"cniVersion":"1.1.0","interfaces":[{"name":"h0"},{"name":"eth0","mac":"` + eth0MAC + `","sandbox":"/run/netns/1"},{"name":"h1"},{"name":"ovn-udn1","mac":"` + udn1MAC + `","mtu":1400,"sandbox":"/run/netns/1"}],
			"ips":[{"interface":1,"address":"10.244.0.9/24"},{"interface":3,"address":"10.9.0.5/16","gateway":"10.9.0.1"}]}`,
			[]*nadv1.NetworkStatus{{Name: "ovn", Interface: "eth0", IPs: []string{"10.244.0.9"}, Mac: eth0MAC}, {Name: "ovn", Interface: "ovn-udn1", IPs: []string{"10.9.0.5"}, Mac: udn1MAC, Mtu: 1400, Default: true}},
		},
		{
			"IPv6 only, another name", `{"cniVersion":"1.0.0","interfaces":[{"name":"h0"},{"name":"net0","mac":"` + eth0MAC + `","sandbox":"/run/netns/1"}],
			"ips":[{"interface":1,"address":"fd00::9/64","gateway":"fd00::1"}],"routes":[{"dst":"::/0","gw":"fd00::1"}]}`,
			[]*nadv1.NetworkStatus{{Name: "ovn", Interface: "net0", IPs: []string{"fd00::9"}, Mac: eth0MAC, Gateway: []string{"fd00::1"}, Default: true}},
		},
		{
			"the result names only the node's interface", `{"cniVersion":"0.3.1","interfaces":[{"name":"cali1"}],"ips":[{"version":"4","address":"10.244.0.9/32"}]}`,
			[]*nadv1.NetworkStatus{{Name: "ovn", Interface: "eth0", IPs: []string{"10.244.0.9"}, Mac: mac, Default: true}},
		},
		{"the result has no interface", `{"cniVersion":"0.3.1","ips":[{"version":"4","address":"10.244.0.9/32"}]}`, []*nadv1.NetworkStatus{&read}},
		{"no result", `null`, []*nadv1.NetworkStatus{&read}},
		{"a version that is unknown", `{"cniVersion":"9.0.0"}`, []*nadv1.NetworkStatus{&read}},
		{"no cache", "", []*nadv1.NetworkStatus{&read}},
	} {
		var cached *cniexec.CacheEntry
		if tt.result != "" {
			cached = &cniexec.CacheEntry{Network: "ovn", Result: []byte(tt.result)}
		}
		got, err := reader.DefaultNetwork(attachment.Sandbox{NetNS: path, IPs: []string{"fd00::5", "10.244.0.5"}}, cached)
		if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
}

// TestInRuntimeOrder checks a cluster whose first family is IPv6: the kernel lists IPv4
// first.
func TestInRuntimeOrder(t *testing.T) {
	for _, tt := range []struct{ ips, runtime, want []string }{
		{[]string{"10.0.0.5", "fd00::5"}, []string{"fd00::5", "10.0.0.5"}, []string{"fd00::5", "10.0.0.5"}},
		{[]string{"10.0.0.9", "10.0.0.5", "fd00::5"}, []string{"10.0.0.5"}, []string{"10.0.0.5", "10.0.0.9", "fd00::5"}},
		{[]string{"10.0.0.5", "fd00::5"}, nil, []string{"10.0.0.5", "fd00::5"}},
	} {
		inRuntimeOrder(tt.ips, tt.runtime)
		if !slices.Equal(tt.ips, tt.want) {
			t.Errorf("order %v, want %v", tt.ips, tt.want)
		}
	}
}

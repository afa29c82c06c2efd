//go:build e2e

package vm

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/test/lab"
	"github.com/nadra-dev/nadra/test/vm/wire"
)

// The requests of TestHostRules' pod besides its network. No other interface has these
// rates, in bit/s.
const (
	hostPort    = 8080
	podPort     = 80
	ingressRate = 40_000_000
	egressRate  = 24_000_000
	greeting    = "from the pod"
)

// TestHostRules runs the plugins that write the node's firewall and limit traffic, in a
// common chain, with a claim that configures them. iptables is the older form, for which
// the driver needs NET_RAW.
func TestHostRules(t *testing.T) {
	f := scenario(t, "hostrules", preparation{
		do:   "ip link add br-web type bridge; ip link set br-web address 02:00:00:00:44:01",
		undo: "ip link del br-web",
	}, closedHost)
	f.nad("web", limitedBridge(f.hostLocal())...)
	f.must(f.CreateTemplate(f.ctx, lab.Template(f.ns, "a", lab.Want{Network: "web", Config: object{
		"interface":    "web",
		"portMappings": []object{{"hostPort": hostPort, "containerPort": podPort}},
		"bandwidth": object{
			"ingressRate": ingressRate, "ingressBurst": ingressRate, "egressRate": egressRate, "egressBurst": egressRate,
		},
	}})))
	f.start(server(f.ns, "a"))
	var pod *corev1.Pod
	var address string
	testCase(t, "a driver with NET_RAW runs plugins that use iptables in its older form", func(t *testing.T) {
		if _, err := f.Ready(f.ctx, f.ns, "a", podLimit); err != nil {
			t.Fatal(err)
		}
		var seen wire.Net
		pod, seen = f.ready("a")
		address = f.addressOf(t, "a", "web")
		requireLink(t, seen, "web", "veth", address+"/24")
	})
	if pod == nil {
		t.FailNow() // everything else belongs to that pod
	}

	// Other machines have no route to the pod's subnet.
	testCase(t, "ipMasq: the pod's packets leave as the node's", func(t *testing.T) {
		f.ping(t, pod, "web", f.Guest.Gateway())
		rules := f.rules(t)
		requireHit(t, rules, "-A POSTROUTING -s "+address+"/32", "-j CNI-")
		requireHit(t, rules, `name: \"web\"`, "-j MASQUERADE")
	})
	testCase(t, "portmap: a port of the node is the pod's", func(t *testing.T) {
		f.checkHostPort(t)
		requireHit(t, f.rules(t), fmt.Sprintf("--dport %d -j DNAT --to-destination %s:%d", hostPort, address, podPort))
	})
	testCase(t, "firewall: a node that forwards nothing forwards the pod's packets", func(t *testing.T) {
		rules := f.rules(t)
		requireHit(t, rules, "-A CNI-FORWARD -s "+address+"/32 -j ACCEPT")
		requireHit(t, rules, "-A CNI-FORWARD -d "+address+"/32", "ESTABLISHED", "-j ACCEPT")
	})
	testCase(t, "bandwidth: both directions go through filters of their rates", f.checkRates)
	testCase(t, "rules and filters of the pod go with it", func(t *testing.T) {
		own := regexp.MustCompile(`CNI-(DN-)?[0-9a-f]{20,}|` + regexp.QuoteMeta(address) + `\b`)
		if len(matching(f.rules(t), own)) == 0 {
			t.Errorf("no rule is known for the pod's by %s", own)
		}
		f.leavesNothing(t)
		if left := matching(f.rules(t), own); len(left) > 0 {
			t.Errorf("left over:\n  %s", strings.Join(left, "\n  "))
		}
	})
}

// limitedBridge returns a network that reaches other machines through the node.
func limitedBridge(ipam object) []object {
	ipam["routes"] = []object{{"dst": "10.99.0.0/24"}}
	return []object{
		{"type": "bridge", "bridge": "br-web", "isGateway": true, "ipMasq": true, "ipam": ipam},
		{"type": "portmap", "capabilities": object{"portMappings": true}},
		{"type": "firewall", "backend": "iptables"},
		{"type": "bandwidth", "capabilities": object{"bandwidth": true}},
	}
}

// closedHost makes the guest forward only packets to mapped ports, as many nodes do.
// Undoing it removes all rules, because plugins keep the chains that pods share.
var closedHost = preparation{
	do: "export PATH=$PATH:" + iptablesFolder + "\n" +
		"iptables -P FORWARD DROP; iptables -A FORWARD -m conntrack --ctstate DNAT -j ACCEPT",
	undo: "export PATH=$PATH:" + iptablesFolder + "\n" +
		"iptables -P FORWARD ACCEPT; for table in filter nat; do iptables -t $table -F; iptables -t $table -X; done",
}

// server returns a pod that sends a greeting to its clients.
func server(namespace, name string) *corev1.Pod {
	pod := lab.Pod(namespace, name, name)
	pod.Spec.Containers[0].Command = []string{"/bin/sh", "-c", fmt.Sprintf(
		"trap 'exit 0' TERM; nc -ll -p %d -e /bin/echo %s & wait", podPort, greeting)}
	return pod
}

// checkHostPort connects from another machine, and from the node itself.
func (f *fixture) checkHostPort(t *testing.T) {
	t.Helper()
	err := lab.Eventually(f.ctx, podLimit, func(ctx context.Context) error {
		printed, err := f.greeted(ctx)
		if err == nil && printed != greeting {
			err = fmt.Errorf("port %d of the node sends %q, want %q", hostPort, printed, greeting)
		}
		return err
	})
	if err != nil {
		t.Errorf("connecting from the control plane: %v", err)
	}
	printed, err := f.Guest.Shell(f.ctx, fmt.Sprintf("busybox nc -w 20 127.0.0.1 %d </dev/null", hostPort))
	if err != nil || strings.TrimSpace(printed) != greeting {
		t.Errorf("connecting from the node: it sends %q (%v), want %q", printed, err, greeting)
	}
}

// greeted returns the greeting that another machine gets from the node's port.
func (f *fixture) greeted(ctx context.Context) (string, error) {
	const greetLimit = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, greetLimit)
	defer cancel()
	conn, err := f.Cluster.ControlPlane().Dial(ctx, "tcp", net.JoinHostPort(f.Guest.IP(), strconv.Itoa(hostPort)))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(greetLimit)); err != nil {
		return "", err
	}
	printed, err := io.ReadAll(conn)
	return strings.TrimSpace(string(printed)), err
}

// checkRates checks the rates of the pod's interface on the node, and of the interface
// through which the pod's own packets pass.
func (f *fixture) checkRates(t *testing.T) {
	host, err := f.Guest.Net(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	find := func(what string, is func(wire.Link) bool) wire.Link {
		i := slices.IndexFunc(host.Links, is)
		if i < 0 {
			t.Fatalf("the node has no %s: %+v", what, host.Links)
		}
		return host.Links[i]
	}
	veth := find("interface on br-web", func(l wire.Link) bool { return l.Master == "br-web" })
	if veth.Rate != ingressRate {
		t.Errorf("what goes to the pod by %s has the rate %d, not %d", veth.Name, veth.Rate, ingressRate)
	}
	ifb := find("ifb", func(l wire.Link) bool { return l.Kind == "ifb" })
	if ifb.Rate != egressRate {
		t.Errorf("what comes from the pod by %s has the rate %d, not %d", ifb.Name, ifb.Rate, egressRate)
	}
	sent, err := f.Guest.Run(f.ctx, "cat", filepath.Join("/sys/class/net", ifb.Name, "statistics/tx_packets"))
	if err != nil || strings.TrimSpace(sent) == "0" {
		t.Errorf("%s has sent %q packets (%v): what comes from the pod goes another way", ifb.Name, sent, err)
	}
}

// rules returns the guest's iptables rules, each with its counts of packets and bytes in
// front.
func (f *fixture) rules(t *testing.T) []string {
	t.Helper()
	saved, err := f.Guest.Run(f.ctx, filepath.Join(iptablesFolder, "iptables-save"), "-c")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(saved), "\n")
}

// requireHit fails the test unless one rule contains all parts and has matched a packet.
func requireHit(t *testing.T, rules []string, parts ...string) {
	t.Helper()
	for _, rule := range rules {
		lacks := func(part string) bool { return !strings.Contains(rule, part) }
		if slices.ContainsFunc(parts, lacks) {
			continue
		}
		if strings.HasPrefix(rule, "[0:0]") {
			t.Errorf("no packet came to the rule %s", rule)
		}
		return
	}
	t.Errorf("no rule has %q:\n  %s", parts, strings.Join(rules, "\n  "))
}

func matching(rules []string, pattern *regexp.Regexp) []string {
	return slices.DeleteFunc(slices.Clone(rules), func(rule string) bool { return !pattern.MatchString(rule) })
}

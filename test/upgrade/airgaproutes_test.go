//go:build e2e

package upgrade

import (
	"bytes"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cutOff leaves each node a route to the API server's service in place of its default route, until the test's
// end.
func (a *airGap) cutOff() {
	a.Helper()
	service, err := a.Kube.CoreV1().Services("default").Get(a.Ctx, "kubernetes", metav1.GetOptions{})
	a.Must(err)
	for _, n := range a.Cluster.Nodes() {
		route := strings.TrimSpace(a.sh(n, "ip route show default"))
		inside := strings.Replace(route, "default", service.Spec.ClusterIP, 1)
		a.sh(n, "ip route add "+inside+"; ip route del "+route)
		a.Cleanup(func() { a.sh(n, "ip route add "+route+"; ip route del "+inside) })
	}
}

// noRoutes adds up the kernel's counters of packets without a route in a network namespace: of its own, and
// of those that it would forward.
const noRoutes = `awk '
FNR == 1 { header = "" }
{ if ($1 == header) { for (i = 2; i <= NF; i++) if (names[i] ~ /NoRoutes$/) sum += $i; header = "" } else { header = $1; split($0, names) } }
$1 ~ /^Ip6.*NoRoutes$/ { sum += $2 }
END { print sum + 0 }' /proc/net/snmp /proc/net/netstat /proc/net/snmp6`

// attempts returns the number of packets without a route, by machine, and by pod of nadra.
func (a *airGap) attempts() map[string]int {
	a.Helper()
	out := map[string]int{}
	for name, m := range a.machines {
		out[name] = a.count(m, noRoutes)
	}
	return out
}

// count runs a command that prints a number.
func (a *airGap) count(m machine, script string) int {
	a.Helper()
	text, err := m.Exec(a.Ctx, "sh", "-ec", script)
	a.Must(err)
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	a.Must(err)
	return n
}

// hasNoRoute checks that no machine has a default route, and that the counters see what a machine or a pod
// sends to outside.
func (a *airGap) hasNoRoute(pod *corev1.Pod) {
	a.Helper()
	for name, m := range a.machines {
		routes, err := m.Exec(a.Ctx, "sh", "-ec", "ip route show default; ip -6 route show default")
		a.Must(err)
		if len(bytes.TrimSpace(routes)) > 0 {
			a.Fatalf("%s has a default route: %s", name, routes)
		}
		for _, protocol := range []string{"tcp", "udp"} { // a connection, and what a name's resolution begins with
			before := a.count(m, noRoutes)
			if _, err := m.Exec(a.Ctx, "bash", "-c", "echo >/dev/"+protocol+"/192.0.2.1/53"); err == nil {
				a.Fatalf("%s reaches 192.0.2.1", name)
			}
			if a.count(m, noRoutes) == before {
				a.Fatalf("%s: a packet to 192.0.2.1 by %s is not counted", name, protocol)
			}
		}
	}
	node := a.NodeOf(pod)
	before := a.count(node, noRoutes)
	if out, err := a.Fixture.Exec(a.Ctx, pod.Namespace, pod.Name, "ping", "-c1", "-W1", "192.0.2.1"); err == nil {
		a.Fatalf("pod %s reaches 192.0.2.1: %s", pod.Name, out)
	}
	if a.count(node, noRoutes) == before {
		a.Fatalf("a ping of 192.0.2.1 from pod %s is not counted on %s", pod.Name, node.Name())
	}
}

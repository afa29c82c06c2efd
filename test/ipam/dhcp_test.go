//go:build e2e

package ipam

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// dhcpTotals has the results of the DHCP cases.
type dhcpTotals struct{ pods, leaked, lost int }

// TestDHCP runs pods of one node with addresses of a DHCP server, whose leases the
// plugin's daemon keeps.
func TestDHCP(t *testing.T) {
	d := onLAN(t, "dhcp", api.OwnerNadra)
	d.Must(d.Published(d.Ctx, "dhcp/lan"))
	for _, c := range []struct {
		name string
		run  func(*dhcp)
	}{
		{"Renewal", (*dhcp).renewal},
		{"DaemonAway", (*dhcp).daemonAway},
	} {
		t.Run(c.name, func(t *testing.T) {
			inner := *d.fixture
			inner.T = t
			one := &dhcp{fixture: &inner, node: d.node, releases: d.releases}
			t.Cleanup(one.logState)
			c.run(one)
			d.totals.pods += one.totals.pods
			d.totals.leaked += one.totals.leaked
			d.totals.lost += one.totals.lost
		})
	}
	lines["dhcp"] = fmt.Sprintf("dhcp: pods=%d leaked=%d lost=%d", d.totals.pods, d.totals.leaked, d.totals.lost)
}

type dhcp struct {
	*fixture
	node     *cluster.Node
	releases *releases
	totals   dhcpTotals
}

// startDHCP starts the DHCP server and the plugin's daemon on the first node, once for all tests.
// A reboot ends both; the case that reboots nodes runs after all tests with DHCP.
var startDHCP = sync.OnceValue(func() error {
	n := theLab.Cluster.Node(1)
	if err := startServer(interrupted, n); err != nil {
		return err
	}
	return startDaemon(interrupted, n)
})

// onLAN creates a namespace of an owner, with a network of the first node whose addresses are those
// of the DHCP server, and listens to releases.
func onLAN(t *testing.T, namespace, owner string) *dhcp {
	t.Helper()
	if err := startDHCP(); err != nil {
		t.Fatal(err)
	}
	n := theLab.Cluster.Node(1)
	sent, err := listen(n, segment)
	if err != nil {
		t.Fatal(err)
	}
	d := &dhcp{fixture: plainFixture(t, namespace, owner), node: n, releases: sent}
	listening, stop := context.WithCancel(d.Ctx)
	go sent.run(listening)
	t.Cleanup(func() { stop(); <-sent.done })
	d.ApplyYAML(fmt.Sprintf(`
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: lan}
spec:
  config: '{"cniVersion":"1.0.0","name":"lan","type":"macvlan","master":"%s","mode":"bridge","ipam":{"type":"dhcp"}}'
`, dhcpMaster))
	return d
}

// plainFixture creates a namespace of an owner, without a checker of whereabouts' pools.
func plainFixture(t *testing.T, namespace, owner string) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(interrupted, 8*time.Minute)
	t.Cleanup(cancel)
	f := &fixture{Fixture: lab.Fixture{Lab: theLab, T: t, Ctx: ctx, NS: namespace}}
	f.Must(f.CreateNamespace(ctx, namespace))
	f.Must(f.Label(ctx, "namespace/"+namespace, owner))
	t.Cleanup(func() {
		for _, args := range [][]string{{"-n", namespace, "delete", "pods", "--all", "--grace-period=1", "--timeout=90s"}, {"delete", "namespace", namespace, "--wait=false"}} {
			if _, err := f.Cluster.Kubectl(ctx, args...); err != nil {
				t.Error(err)
			}
		}
	})
	return f
}

// renewal kills the driver of a node with a lease. The daemon must still renew the lease,
// and release it when the pod is deleted.
func (d *dhcp) renewal() {
	p := d.run("renewed")
	first := d.lease(p)
	before, err := lab.DriverPID(d.node)
	d.Must(err)
	_, err = d.node.Exec(d.Ctx, "kill", "-9", before)
	d.Must(err)
	d.Eventually(time.Minute, func(context.Context) error {
		now, err := lab.DriverPID(d.node)
		if err == nil && now == before {
			err = fmt.Errorf("driver %s still runs", before)
		}
		return err
	})
	d.renewed(p)
	if now := d.lease(p); now.address != first.address {
		d.Errorf("the pod's lease was of %s and is of %s", first.address, now.address)
	}
	client := first.client
	d.end("renewed")
	d.released(client)
}

// renewed waits until the daemon renews a pod's lease.
func (d *dhcp) renewed(p *corev1.Pod) {
	d.Helper()
	before := d.lease(p)
	d.Eventually(time.Minute, func(context.Context) error {
		if now := d.lease(p); !now.expires.After(before.expires) {
			return fmt.Errorf("the lease of %s still expires at %s", now.address, now.expires.Format(time.TimeOnly))
		}
		return nil
	})
}

// daemonAway ends the daemon before the pod. The pod must go, an Event must report the
// failed DEL, and the driver must retry the DEL until the daemon is back.
func (d *dhcp) daemonAway() {
	p := d.run("orphaned")
	d.Must(stopDaemon(d.Ctx, d.node))
	before := d.lease(p)
	began := time.Now()
	d.end("orphaned")
	d.Logf("the pod was gone after %s", time.Since(began).Round(time.Second))
	d.Eventually(2*time.Minute, func(ctx context.Context) error {
		events := strings.Join(d.Events(ctx, d.NS, "orphaned"), "\n")
		if !strings.Contains(events, reason.EventFailedReleaseNetwork) || !strings.Contains(events, "error dialing DHCP daemon") {
			return fmt.Errorf("no Event reports that the daemon is away: %s", events)
		}
		return nil
	})
	if pending := d.pending(); pending != 1 {
		d.Errorf("%d DELs are pending, want 1", pending)
	}
	d.Must(startDaemon(d.Ctx, d.node))
	// The sweep, each 30 s, tries the DEL after a pause of 30 s, and of 60 s if it
	// has failed once more meanwhile. A tick just before the pause is over adds 30 s.
	d.Eventually(3*time.Minute, func(context.Context) error {
		if pending := d.pending(); pending != 0 {
			return fmt.Errorf("%d DELs are pending", pending)
		}
		return nil
	})
	// The new daemon does not know the lease, so the server keeps it until it
	// expires. It must not be renewed.
	kept, err := leases(d.node)
	d.Must(err)
	for _, l := range kept {
		if l.client == before.client && l.expires.After(before.expires) {
			d.totals.leaked++
			d.Errorf("the lease of %s, which no pod has, was renewed to %s", l.address, l.expires.Format(time.TimeOnly))
		}
	}
}

// logState logs the output of the server and the daemon, if the case failed.
func (d *dhcp) logState() {
	if !d.Failed() {
		return
	}
	out, err := d.node.Exec(d.Ctx, "tail", "-n", "60", serverLog, daemonLog, leaseFile)
	d.Logf("%s\n%v\n%s", out, err, d.DriverLog(d.Ctx))
}

// run creates a pod on the node and checks that the server has given it its
// address.
func (d *dhcp) run(name string) *corev1.Pod {
	d.Helper()
	d.ApplyYAML(strings.NewReplacer("NAME", name, "NODE", d.node.Name()).Replace(`
apiVersion: v1
kind: Pod
metadata: {name: NAME, annotations: {k8s.v1.cni.cncf.io/networks: lan}}
spec:
  terminationGracePeriodSeconds: 2
  nodeSelector: {kubernetes.io/hostname: NODE}
  containers:
    - {name: main, image: "localhost/test:1", imagePullPolicy: Never, command: [/bin/sh, -c, "trap 'exit 0' TERM; sleep infinity & wait"]}
`))
	p := d.ready(name)
	d.totals.pods++
	if has, leased := d.address(p, "net1"), d.lease(p).address; has != leased {
		d.totals.lost++
		d.Errorf("pod %s has %s, and its lease is of %s", name, has, leased)
	}
	return p
}

// lease returns the lease of a running pod.
func (d *dhcp) lease(p *corev1.Pod) lease {
	d.Helper()
	s, err := d.node.PodSandbox(d.Ctx, string(p.UID))
	d.Must(err)
	var found lease
	// The server may be writing the file.
	err = lab.Eventually(d.Ctx, 2*time.Minute, func(context.Context) error {
		list, err := leases(d.node)
		i := slices.IndexFunc(list, func(l lease) bool { return strings.Contains(l.client, s.ID) })
		if err != nil || i < 0 {
			return fmt.Errorf("the server has no lease of pod %s (sandbox %s), only %v: %w", p.Name, s.ID, list, err)
		}
		found = list[i]
		return nil
	})
	if err != nil {
		d.totals.lost++
		d.Fatal(err)
	}
	return found
}

// released waits until the daemon has sent the release of a client's lease.
func (d *dhcp) released(client string) {
	d.Helper()
	err := lab.Eventually(d.Ctx, 2*time.Minute, func(context.Context) error {
		source, sent := d.releases.of(client)
		if !sent {
			return fmt.Errorf("no DHCPRELEASE was sent for %q", client)
		}
		d.Logf("released from %s", source)
		return nil
	})
	if err != nil {
		d.totals.leaked++
		d.Error(err)
	}
}

// pending returns the number of pending DELs.
func (d *dhcp) pending() int {
	d.Helper()
	out, err := d.node.Exec(d.Ctx, "sh", "-c", "ls /var/lib/nadra/pending-dels 2>/dev/null; true")
	d.Must(err)
	return strings.Count(string(out), ".json")
}

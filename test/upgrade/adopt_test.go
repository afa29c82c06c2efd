//go:build e2e

package upgrade

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// ourPods are the apps of this test's own pods, all of which have an address of n3.
var ourPods = []string{"smf", "upf", "probe", "db", "bare", "placed", "agent", "static"}

// TestAdopt moves a cluster to nadra, back, and to nadra again, and removes Multus, while packets are
// sent to every network of every pod. No pod is evicted or restarted, nothing in its network
// namespace changes, and no packet is lost; nor of pods that nadra attaches without a claim in between. When the pods end, and after a reboot, nothing is left.
func TestAdopt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	f := &fixture{Fixture: lab.Fixture{Lab: theLab, T: t, Ctx: ctx}, dir: t.TempDir()}
	f.installUnmovable()
	pods := f.running()
	before := f.observed(pods)
	packets := f.begin(f.aims(pods), func(app string) bool { return slices.Contains(ourPods, app) })
	same := func(when string) {
		t.Helper()
		if diff := cmp.Diff(before, f.observed(f.running())); diff != "" {
			t.Fatalf("the pods %s (-before +now):\n%s", when, diff)
		}
	}

	f.installNadra()
	plan := f.file("plan.yaml", f.nadra("upgrade", "plan"))
	first, second := f.order(plan)
	summary := f.nadra("upgrade", "plan", "--from", plan, "-o", "markdown")
	if want := fmt.Sprintf("1 namespace; %d pods adopted", len(pods)); !strings.Contains(summary, want) {
		t.Errorf("the plan has not %q:\n%s", want, summary)
	}
	points := f.points(first, second)
	f.runUntil(points[0], unix.SIGKILL, "run", "-f", plan, "--yes")
	same("after an upgrade that was killed")
	f.killDrivers()
	f.runUntil(points[1], unix.SIGINT, "resume", "--yes")
	f.nadra("upgrade", "resume", "--yes")
	same("on nadra's nodes")
	f.areAdopted(len(pods), f.Cluster.Nodes()...)
	own := f.startOwn(first, second)

	f.nadra("upgrade", "rollback", "--all", "--yes")
	same("back on Multus' nodes")
	own.areOfMultus()
	f.nothingTaken()

	f.nadra("upgrade", "run", "-f", plan, "--yes")
	same("on nadra's nodes again")
	own.same("adopted")
	f.makeDefault()
	f.Log(f.nadra("upgrade", "finish", "--remove-multus", "--yes"))
	same("without Multus")
	sent, lost := packets.end()
	sentToOwn, lostOfOwn := own.packets.end()
	sent, lost = sent+sentToOwn, append(lost, lostOfOwn...)
	for _, one := range lost {
		t.Errorf("lost: %s", one)
	}

	f.sandboxesAreRemade(first)
	f.Kubectl("-n", namespace, "delete", "statefulsets,deployments,daemonsets,pods", "--all", "--timeout=120s")
	f.noStaticPods()
	f.nothingLeft()
	f.nothingTaken()
	t.Logf("%d packets were sent to %d addresses", sent, len(packets.flows)+len(own.packets.flows))
	fmt.Printf("upgrade-lane: pods=%d evicted=0 restarted=0 packets-lost=%d left-behind=0\n", len(pods), len(lost))
	f.backToMultus()
}

// node returns a node by its name.
func (f *fixture) node(name string) *cluster.Node {
	f.Helper()
	for _, n := range f.Cluster.Nodes() {
		if n.Name() == name {
			return n
		}
	}
	f.Fatalf("there is no node %s", name)
	return nil
}

// sh runs a shell script on a node.
func (f *fixture) sh(n *cluster.Node, script string) string {
	f.Helper()
	out, err := n.Exec(f.Ctx, "sh", "-ec", script)
	f.Must(err)
	return string(out)
}

// killDrivers kills nadra's driver on every node, and waits until the next one serves.
func (f *fixture) killDrivers() {
	f.Helper()
	for _, n := range f.Cluster.Nodes() {
		f.sh(n, `for p in $(ls /proc | grep '^[0-9]'); do [ "$(cat /proc/$p/comm 2>/dev/null)" = nadra-node ] && kill -9 $p; done; true`)
	}
	f.Kubectl("-n", "nadra", "rollout", "status", "daemonset/nadra-node", "--timeout=120s")
}

// areAdopted checks what nadra says of adopted pods, and that it has taken them from Multus on these nodes.
func (f *fixture) areAdopted(pods int, nodes ...*cluster.Node) {
	f.Helper()
	status := f.nadra("upgrade", "status")
	f.Log(status)
	if want := fmt.Sprintf("%d pods still have networks that Multus attached", pods); !strings.Contains(status, want) {
		f.Errorf("status has not %q:\n%s", want, status)
	}
	for _, p := range f.running() {
		if len(p.Spec.ResourceClaims) > 0 {
			f.Errorf("pod %s has a claim", p.Name)
		}
	}
	for _, n := range nodes {
		if left := f.sh(n, scratch); left != "" {
			f.Errorf("Multus still has these sandboxes on %s: %s", n.Name(), left)
		}
	}
}

// scratch and taken list the sandboxes that Multus has, and that nadra has taken.
const (
	scratch = `cd /var/lib/cni/multus 2>/dev/null && find . -maxdepth 1 -type f; true`
	taken   = `ls /var/lib/cni/multus/nadra 2>/dev/null || true`
)

// nothingTaken waits until nadra has no sandbox of Multus. Multus may have made that of nadra-certificates, which
// nothing else in the tests recreates.
func (f *fixture) nothingTaken() {
	f.Helper()
	f.Kubectl("-n", "nadra-system", "delete", "pods", "-l", "app.kubernetes.io/name=nadra-certificates", "--timeout=60s")
	for _, n := range f.Cluster.Nodes() {
		f.Eventually(time.Minute, func(ctx context.Context) error {
			left, err := n.Exec(ctx, "sh", "-ec", taken)
			if err == nil && len(left) > 0 {
				err = fmt.Errorf("on %s nadra still has these sandboxes of Multus: %s", n.Name(), left)
			}
			return err
		})
	}
}

// sandboxesAreRemade reboots a node with adopted pods. They get new sandboxes, with their networks by
// the annotation, and what the old ones had is released.
func (f *fixture) sandboxesAreRemade(name string) {
	f.Helper()
	f.Must(f.node(name).Reboot(f.Ctx))
	f.servedAgain(name)
	f.nothingLeft()
}

// servedAgain waits until the pods of a node that was booted have their networks again.
func (f *fixture) servedAgain(name string) {
	f.Helper()
	f.Eventually(4*time.Minute, func(ctx context.Context) error {
		for _, p := range f.running() {
			if p.Spec.NodeName != name {
				continue
			}
			if !lab.IsReady(&p) {
				return fmt.Errorf("pod %s is not ready after its node was booted", p.Name)
			}
			if want, known := interfaces[p.Labels["app"]]; known {
				links, err := f.Exec(ctx, p.Namespace, p.Name, "ls", "/sys/class/net")
				if err != nil {
					return err
				}
				if len(strings.Fields(links)) != len(want)+2 {
					return fmt.Errorf("pod %s has links %q after its node was booted, want lo, eth0 and %q", p.Name, links, want)
				}
			}
		}
		return nil
	})
}

// backToMultus ends the test on a cluster without Multus: it removes what is left of the test, and nadra, and
// installs Multus.
func (f *fixture) backToMultus() {
	f.Helper()
	f.Kubectl("delete", "namespace", namespace, "--timeout=120s")
	f.Kubectl("label", "nodes", "--all", "nadra.dev/owner-")
	f.nadra("uninstall", "--yes")
	f.Must(f.InstallMultus(f.Ctx, nil))
}

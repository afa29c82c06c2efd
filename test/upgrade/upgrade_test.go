//go:build e2e

package upgrade

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/desk/upgrade"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

const namespace = "core"

// TestUpgrade moves a cluster to nadra by a plan, with a process that is killed and then interrupted, while pods are
// deleted. It recreates the pods, so that nadra attaches them by claims, and compares them with a snapshot. Then it rolls
// back a node, a workload and a namespace, moves them again, rolls back everything, moves it again and removes Multus,
// and in the end nadra. Pods that are deleted at any of these stages must leave nothing.
func TestUpgrade(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 28*time.Minute)
	defer cancel()
	f := &fixture{Fixture: lab.Fixture{Lab: theLab, T: t, Ctx: ctx}, dir: t.TempDir()}
	f.install()
	f.served(v1alpha1.OwnerMultus, f.nodes()...)
	f.clean(v1alpha1.OwnerMultus, f.nodes()...)
	plain := f.uids("plain")

	f.installNadra()
	f.Log(f.nadra("doctor", "--probe"))
	f.Log(f.nadra("scan", "-n", namespace))
	before := f.file("before.json", f.nadra("snapshot", "-A", "--probe"))

	plan := f.file("plan.yaml", f.nadra("upgrade", "plan"))
	first, second := f.order(plan)
	f.page.names = strings.NewReplacer(before, "before.json", first, "node-a", second, "node-b")
	f.nadra("upgrade", "run", "-f", plan, "--dry-run=client")
	f.nadra("upgrade", "run", "-f", plan, "--dry-run=server")
	f.served(v1alpha1.OwnerMultus, f.nodes()...) // nothing was changed by these

	// Killed by SIGKILL, and interrupted.
	points := f.points(first, second)
	f.runUntil(points[0], unix.SIGKILL, "run", "-f", plan, "--yes")
	f.deleted("smf, upf") // while a node may be between the two
	f.runUntil(points[1], unix.SIGINT, "resume", "--yes")
	f.deleted("csrx, samplepod")
	f.nadra("upgrade", "resume", "--yes")
	f.show("status", "upgrade", "status")
	f.served("") // by either owner
	f.clean(v1alpha1.OwnerNadra, f.nodes()...)
	f.Log(f.nadra("upgrade", "status"))
	f.show("verify", "verify", "--against", before, "--probe")

	f.refused("namespace "+namespace, "upgrade", "rollback", "-n", namespace, "--yes") // no node is Multus'
	f.nadra("upgrade", "rollback", "--node", first, "--yes")
	f.Log(f.nadra("upgrade", "status"))
	f.served(v1alpha1.OwnerMultus, first)
	f.clean(v1alpha1.OwnerMultus, first)
	f.nadra("upgrade", "rollback", "--pod", namespace+"/upf-0", "--yes")
	if on := f.Kubectl("-n", namespace, "get", "pod", "upf-0", "-o", "jsonpath={.spec.nodeName} {.spec.resourceClaims}"); strings.TrimSpace(on) != first {
		t.Errorf("upf-0 is on %q, want it on %s and Multus'", on, first)
	}
	f.Kubectl("-n", namespace, "patch", "statefulset", "upf", "--type=json", `-p=[{"op":"remove","path":"/spec/template/metadata/labels/nadra.dev~1owner"}]`)
	f.Kubectl("-n", namespace, "rollout", "status", "statefulset/upf", "--timeout=60s")
	f.nadra("upgrade", "rollback", "-n", namespace, "--yes")
	f.served(v1alpha1.OwnerMultus, first)
	f.givenBack(namespace)
	f.nadra("upgrade", "run", "-f", plan, "--yes")
	f.clean(v1alpha1.OwnerNadra, f.nodes()...)

	f.nadra("upgrade", "rollback", "--all", "--yes")
	f.Log(f.nadra("upgrade", "status"))
	f.served(v1alpha1.OwnerMultus, f.nodes()...)
	f.Log(f.nadra("verify", "--against", before, "--probe"))
	if now := f.uids("plain"); !slices.Equal(plain, now) {
		t.Errorf("pods without networks are %q, and were %q: they must not change", now, plain)
	}
	strategy := f.Kubectl("-n", "kube-system", "get", "daemonset", "kube-multus-ds", "-o", "jsonpath={.spec.updateStrategy.type}{.spec.template.spec.affinity}")
	if strategy != "RollingUpdate" {
		t.Errorf("Multus' DaemonSet has %q, and was without affinity and with RollingUpdate", strategy)
	}

	f.refused(string(upgrade.CodePodOfMultus), "upgrade", "finish", "--remove-multus", "--yes")
	f.nadra("upgrade", "run", "-f", plan, "--yes")
	f.served("")
	f.refused(string(upgrade.CodeDefault), "upgrade", "finish", "--remove-multus", "--yes") // the controller leaves pods to Multus
	f.makeDefault()
	f.refused("--default-owner=nadra", "upgrade", "rollback", "--all", "--yes") // pods would come back as nadra's
	f.show("finish", "upgrade", "finish")
	f.Log(f.nadra("upgrade", "finish", "--remove-multus", "--dry-run=server"))
	f.Kubectl("-n", "kube-system", "get", "daemonset", "kube-multus-ds") // it is still there
	f.show("remove", "upgrade", "finish", "--remove-multus", "--yes")
	for _, kind := range []string{"daemonset", "configmap", "serviceaccount", "clusterrole", "clusterrolebinding"} {
		if left := f.Kubectl("-n", "kube-system", "get", kind, "-o", "name"); strings.Contains(left, "multus") {
			t.Errorf("left of Multus: %s", left)
		}
	}
	f.Kubectl("-n", namespace, "rollout", "restart", "deployment/smf", "daemonset/probe")
	f.Kubectl("-n", namespace, "rollout", "status", "deployment/smf", "--timeout=60s")
	f.Kubectl("-n", namespace, "rollout", "status", "daemonset/probe", "--timeout=60s")
	for _, p := range f.running() {
		if slices.Contains([]string{"smf", "probe"}, p.Labels["app"]) && p.DeletionTimestamp == nil && len(p.Spec.ResourceClaims) == 0 {
			t.Errorf("pod %s has no claim after the restart of its workload", p.Name)
		}
	}
	f.clean(v1alpha1.OwnerNadra, f.nodes()...)
	f.Log(f.nadra("verify", "--against", before, "--probe"))
	f.leave()
	f.published()
}

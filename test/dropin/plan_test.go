//go:build e2e

package dropin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/internal/desk/cli"
	"github.com/nadra-dev/nadra/internal/desk/upgrade"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestUpgradePlan plans the move of the real cluster. The plan must have Multus' node, the
// namespace, and the workloads whose networks nadra adopts; it must report blockers as long as they
// exist, and change nothing.
func TestUpgradePlan(t *testing.T) {
	f := setup(t, "plan")
	f.networks()
	f.ApplyYAML(lab.Workload("Deployment", "app", "replicas: 2", asked, ""))
	for _, p := range f.pods("app", 2) {
		f.servedBy("multus", p, askedNetworks)
	}
	f.Must(lab.Eventually(f.Ctx, time.Minute, func(ctx context.Context) error {
		names, err := f.Cluster.Kubectl(ctx, "get", "namespaces", "-o", `jsonpath={.items[?(@.status.phase=="Terminating")].metadata.name}`)
		if err == nil && names != "" {
			err = fmt.Errorf("the namespaces of earlier tests are still being deleted: %s", names)
		}
		return err
	}))
	before := f.Kubectl("get", "nodes,namespaces,pods", "-A", "-o", "jsonpath={range .items[*]}{.metadata.uid} {.metadata.labels}{\"\\n\"}{end}")

	plan, code := f.plan()
	if code != cli.CodeBlockers || !slices.ContainsFunc(plan.Findings, func(p translate.Finding) bool { return p.Code == upgrade.CodeMultus }) {
		t.Fatalf("exit code %d, problems %+v: Multus is no DaemonSet here, which must be reported", code, plan.Findings)
	}
	plan, code = f.plan("--multus", "kube-system/kube-multus-ds")
	if code != cli.CodeOK || plan.Summary.Blockers > 0 {
		t.Fatalf("exit code %d, problems %+v", code, plan.Findings)
	}
	app := []upgrade.WorkloadPods{{Workload: upgrade.Workload{Kind: "Deployment", Namespace: f.NS, Name: "app"}, Pods: 2}}
	want := []upgrade.Wave{{Name: "wave-1", Namespaces: []string{f.NS}, Nodes: []upgrade.NodeShare{{Name: f.multus.Name(), Adopts: app}}}}
	if diff := cmp.Diff(want, plan.Waves); diff != "" {
		t.Errorf("waves (-want +got):\n%s", diff)
	}

	after := f.Kubectl("get", "nodes,namespaces,pods", "-A", "-o", "jsonpath={range .items[*]}{.metadata.uid} {.metadata.labels}{\"\\n\"}{end}")
	if before != after {
		t.Errorf("planning has changed the cluster:\n%s\nwas\n%s", after, before)
	}
}

// plan runs the command and reads its plan.
func (f *fixture) plan(args ...string) (*upgrade.Plan, int) {
	f.Helper()
	printed, err := f.Nadra(f.Ctx, append([]string{"upgrade", "plan"}, args...)...)
	f.Must(err)
	if printed.Code == cli.CodeError {
		f.Fatalf("upgrade plan: %s", printed.Err)
	}
	plan, err := upgrade.ParsePlan([]byte(printed.Out))
	f.Must(err)
	f.Logf("upgrade plan %s: %s", strings.Join(args, " "), printed.Err)
	return plan, printed.Code
}

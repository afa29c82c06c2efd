//go:build e2e

package beside

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestUpgradeMovesANamespace plans the move of a namespace of Multus, runs it, and rolls it back.
func TestUpgradeMovesANamespace(t *testing.T) {
	f := setup(t)
	h := f.halves[0]
	f.NS = h.namespace
	f.ApplyYAML(lab.Workload("Deployment", "two", "replicas: 2", "wan,blue@lan", ""))
	f.ApplyYAML(lab.Workload("DaemonSet", "one", "", "blue", ""))
	f.Kubectl("rollout", "status", "deployment/two", "--timeout=60s")
	f.Must(f.served(api.OwnerMultus, f.pod(h, "one")))

	plan := filepath.Join(t.TempDir(), "plan.yaml")
	f.Must(os.WriteFile(plan, []byte(f.nadra("upgrade", "plan", "-n", f.NS)), 0o600))
	f.nadra("upgrade", "run", "-f", plan, "--yes")
	f.allServed(api.OwnerNadra)
	if status := f.nadra("upgrade", "status"); !strings.Contains(status, f.NS) {
		t.Errorf("the status has no namespace %s:\n%s", f.NS, status)
	}
	f.nadra("upgrade", "rollback", "-n", f.NS, "--yes")
	f.allServed(api.OwnerMultus)
}

// allServed checks the pods of both workloads.
func (f *fixture) allServed(owner string) {
	f.Helper()
	pods, err := f.Kube.CoreV1().Pods(f.NS).List(f.Ctx, metav1.ListOptions{})
	f.Must(err)
	for _, p := range pods.Items {
		if lab.IsReady(&p) {
			f.Must(f.served(owner, &p))
		}
	}
}

// nadra runs kubectl nadra, and returns its output.
func (f *fixture) nadra(args ...string) string {
	f.Helper()
	out, err := f.Nadra(f.Ctx, args...)
	f.Must(err)
	f.Logf("kubectl nadra %s: %d\n%s", strings.Join(args, " "), out.Code, out.Err)
	if out.Code != 0 {
		f.Fatalf("kubectl nadra %s ends with %d:\n%s%s", strings.Join(args, " "), out.Code, out.Out, out.Err)
	}
	return out.Out
}

//go:build e2e

package dropin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/internal/desk/doctor"
	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestDriverAway takes the driver from all nodes by a node selector, so that its pods are gone. doctor, the controller's
// metric and explain must name the driver, and not the pod or its author.
func TestDriverAway(t *testing.T) {
	f := setup(t, "driveraway")
	f.networks()
	f.owner(api.OwnerNadra)
	f.blocked()
	const gone = `{"spec":{"template":{"spec":{"nodeSelector":{"nowhere":"to-be-found"}}}}}`
	const back = `{"spec":{"template":{"spec":{"nodeSelector":null}}}}`
	restore := func() {
		f.Kubectl("-n", "nadra", "patch", "daemonset", "nadra-node", "-p", back)
		f.Kubectl("-n", "nadra", "rollout", "status", "daemonset/nadra-node", "--timeout=120s")
	}
	t.Cleanup(restore) // before the fixture's own
	f.Kubectl("-n", "nadra", "patch", "daemonset", "nadra-node", "-p", gone)
	f.blocked("nadra-driver")
	missing := fmt.Sprintf("nadra_nodes_without_driver{missing_on=%q} 1", f.nadra.Name())
	f.Eventually(time.Minute, func(context.Context) error {
		if all := f.controllerMetrics(); !strings.Contains(all, missing) {
			return fmt.Errorf("no replica of the controller serves %s", missing)
		}
		return nil
	})

	f.ApplyYAML(lab.Workload("Deployment", "late", "", "lan", ""))
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		name := f.Kubectl("get", "pods", "-l", "app=late", "-o", "jsonpath={.items[0].metadata.name}")
		printed, err := f.Nadra(ctx, "explain", "-n", f.NS, "pod/"+name)
		if err != nil {
			return err
		}
		if !strings.Contains(printed.Out, "driver is ready on no node") && !strings.Contains(printed.Out, "driver is not ready on node") {
			return fmt.Errorf("explain does not name the driver:\n%s", printed.Out)
		}
		return nil
	})

	restore()
	f.servedBy(api.OwnerNadra, f.pods("late", 1)[0], 1)
	f.blocked()
	f.Eventually(time.Minute, func(context.Context) error {
		if strings.Contains(f.controllerMetrics(), "nadra_nodes_without_driver{") {
			return fmt.Errorf("the controller still misses a driver")
		}
		return nil
	})
}

// blocked waits until doctor's blockers about nadra's own programs are these, in the order of the report.
func (f *fixture) blocked(checks ...string) {
	f.Helper()
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		printed, err := f.Nadra(ctx, "doctor", "-o", "json", "--fail-on", "never")
		if err != nil {
			return err
		}
		var r doctor.Report
		if err := json.Unmarshal([]byte(printed.Out), &r); err != nil {
			return err
		}
		var is []string
		for _, c := range r.Checks {
			if strings.HasPrefix(c.Title, "nadra-") && c.Severity == translate.Blocker {
				is = append(is, c.Title)
			}
		}
		if !slices.Equal(is, checks) {
			return fmt.Errorf("doctor's blockers are %v, want %v", is, checks)
		}
		return nil
	})
}

// controllerMetrics returns the metrics of all replicas of the controller.
func (f *fixture) controllerMetrics() string {
	f.Helper()
	var out strings.Builder
	for _, pod := range strings.Fields(f.Kubectl("-n", "nadra-system", "get", "pods", "-l", "app.kubernetes.io/name=nadra-controller", "-o", "jsonpath={.items[*].metadata.name}")) {
		out.WriteString(f.Kubectl("get", "--raw", "/api/v1/namespaces/nadra-system/pods/"+pod+":8080/proxy/metrics"))
	}
	return out.String()
}

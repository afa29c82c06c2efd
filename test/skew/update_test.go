//go:build e2e

package skew

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/lab"
)

// podsOfUpdate is the number of pods that live during each update, at least.
const podsOfUpdate = 30

// controllerReplicas is the number of pods of the controller.
const controllerReplicas = 2

// setup returns the churn of a test, and makes its namespace and networks once.
func setup(t *testing.T) (*lab.Fixture, *churn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(interrupted, 20*time.Minute)
	t.Cleanup(cancel)
	f := &lab.Fixture{Lab: theLab, T: t, Ctx: ctx, NS: namespace}
	f.Must(f.CreateNamespace(ctx, namespace))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(f.DriverLog(ctx))
		}
		if _, err := f.Cluster.Kubectl(context.WithoutCancel(ctx), "delete", "namespace", namespace, "--timeout=120s"); err != nil {
			t.Errorf("after the test: %v", err)
		}
	})
	f.Must(f.Label(ctx, "namespace/"+namespace, "nadra"))
	f.ApplyYAML(networks)
	f.Must(f.CreateTemplate(ctx, lab.Template(namespace, claimTemplate, lab.Want{Network: "blue"}, lab.Want{Network: "wan"})))
	f.Must(f.Published(ctx, namespace+"/blue", namespace+"/wan"))
	return f, &churn{Lab: theLab, node: f.Cluster.Node(1).Name(), holders: map[string]string{}}
}

// TestUpdates replaces each version by the other, and the present one by itself, while pods come and go.
func TestUpdates(t *testing.T) {
	f, c := setup(t)
	left, err := lab.TakeSnapshot(f.Cluster.Node(1))
	f.Must(err)
	quiet, err := c.during(f.Ctx, podsOfUpdate, func(context.Context) error { return nil })
	f.Must(err)
	usual := median(quiet)
	t.Logf("without an update: %d pods, median %s, slowest %s", len(quiet), usual, slowest(quiet).waited)
	var all []life
	var worst time.Duration
	for _, update := range []struct {
		name string
		act  func(context.Context) error
	}{
		{"before → now", func(ctx context.Context) error { return now.install(ctx, f.Cluster) }},
		{"now → now", c.restart},
		{"now → now, again", c.restart},
		{"now → before", func(ctx context.Context) error { return before.install(ctx, f.Cluster) }},
		{"before → now, again", func(ctx context.Context) error { return now.install(ctx, f.Cluster) }},
	} {
		began := time.Now()
		of, err := c.during(f.Ctx, podsOfUpdate, update.act)
		f.Must(err)
		longest := slowest(of)
		t.Logf("%s: %s, %d pods, median %s, slowest %s (%s, created %s after the beginning: %s)", update.name, time.Since(began).Round(time.Second), len(of), median(of), longest.waited,
			longest.name, longest.began.Sub(began).Round(time.Millisecond), strings.Join(longest.steps, ", "))
		all = append(all, of...)
		worst = max(worst, longest.waited-usual)
	}
	failed := failures(append(quiet, all...))
	if len(failed) > 0 {
		t.Errorf("%d pods failed:\n%s", len(failed), strings.Join(failed, "\n"))
	}
	f.Eventually(30*time.Second, func(context.Context) error { return c.nothingLeft(left) })
	fmt.Printf("skew: pods=%d failed=%d slowest=%s\n", len(all), len(failed), worst.Round(time.Millisecond))
}

// nothingLeft returns an error if pods have left something on the node. The controllers' pods are
// others than before, and the bridge stays.
func (c *churn) nothingLeft(before lab.Snapshot) error {
	now, err := lab.TakeSnapshot(c.Cluster.Node(1))
	if err != nil {
		return err
	}
	var left []string
	controllers := map[string]int{}
	for _, what := range now.Added(before) {
		switch kind, name, _ := strings.Cut(what, " "); {
		case what == "link br-skew":
		case kind == "netns" || strings.HasPrefix(name, "veth"):
			if controllers[kind]++; controllers[kind] > controllerReplicas {
				left = append(left, what)
			}
		default:
			left = append(left, what)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("left behind: %s", strings.Join(left, ", "))
	}
	return nil
}

// restart replaces the driver and the controller by themselves.
func (c *churn) restart(ctx context.Context) error {
	for _, workload := range [][]string{{"nadra", "daemonset/nadra-node"}, {lab.ControllerNamespace, "deployment/nadra-controller"}} {
		if _, err := c.Cluster.Kubectl(ctx, "-n", workload[0], "rollout", "restart", workload[1]); err != nil {
			return err
		}
	}
	return rolledOut(ctx, c.Cluster)
}

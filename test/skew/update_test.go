//go:build e2e

package skew

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/lab"
)

// podsOfUpdate is the number of pods that live during each update, at least.
const podsOfUpdate = 30

const (
	// gapLimit limits the time between the end of one driver and the moment in which the next
	// serves. An ordinary restart takes seconds, and the log of the next driver has no gap then.
	gapLimit = time.Second
	// slack is how much longer than usual, by the median without an update, the slowest pod of an
	// update may take until it is Ready. It is far more than an update adds, for a machine with
	// other lanes beside this one, and less than what a pod loses that the kubelet, the runtime or
	// the webhook has refused meanwhile: the kubelet tries it again after 60 to 90 s, and a
	// container after 11 to 15 s.
	slack = 10 * time.Second
)

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
	var worst, longestGap time.Duration
	for _, update := range []struct {
		name     string
		from, to version
		act      func(context.Context) error
	}{
		{"before → now", before, now, func(ctx context.Context) error { return now.install(ctx, f.Cluster) }},
		{"now → now", now, now, c.restart},
		{"now → before", now, before, func(ctx context.Context) error { return before.install(ctx, f.Cluster) }},
		{"before → now, again", before, now, func(ctx context.Context) error { return now.install(ctx, f.Cluster) }},
	} {
		began := time.Now()
		of, err := c.during(f.Ctx, podsOfUpdate, update.act)
		f.Must(err)
		longest := slowest(of)
		gap := "an ordinary restart"
		if update.from.handsOver(t) && update.to.handsOver(t) {
			took := c.gap(f)
			gap, longestGap = took.String(), max(longestGap, took)
		}
		t.Logf("%s: %s, gap %s, %d pods, median %s, slowest %s (%s, created %s after the beginning: %s)", update.name, time.Since(began).Round(time.Second), gap,
			len(of), median(of), longest.waited, longest.name, longest.began.Sub(began).Round(time.Millisecond), strings.Join(longest.steps, ", "))
		all = append(all, of...)
		worst = max(worst, longest.waited-usual)
	}
	if longestGap > gapLimit {
		t.Errorf("nobody was connected to the runtime for %s, more than %s", longestGap, gapLimit)
	}
	if worst > slack {
		t.Errorf("a pod waited %s longer than usual, more than %s", worst, slack)
	}
	failed := failures(append(quiet, all...))
	if len(failed) > 0 {
		t.Errorf("%d pods failed:\n%s", len(failed), strings.Join(failed, "\n"))
	}
	f.Eventually(30*time.Second, func(context.Context) error { return c.nothingLeft(left) })
	fmt.Printf("skew: pods=%d failed=%d slowest=%s gap=%s\n", len(all), len(failed), worst.Round(time.Millisecond), longestGap.Round(time.Millisecond))
}

// gapInLog finds the gap in the line of a driver that has taken over.
var gapInLog = regexp.MustCompile(`"Took over from another driver".* duration="([^"]+)"`)

// gap returns for how long the runtime had nobody to call when the driver took over.
func (c *churn) gap(f *lab.Fixture) time.Duration {
	f.Helper()
	text, err := f.Cluster.Kubectl(f.Ctx, "-n", "nadra", "logs", c.driver(f).Name)
	f.Must(err)
	found := gapInLog.FindStringSubmatch(text)
	if found == nil {
		f.Fatalf("the driver has not taken over from the one before:\n%s", text)
	}
	gap, err := time.ParseDuration(found[1])
	f.Must(err)
	return gap
}

// handsOver reports whether drivers of the version hand over to the next.
func (v version) handsOver(t *testing.T) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(v.tree, "manifests", "base", "node-daemonset.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), "maxSurge: 1\n")
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

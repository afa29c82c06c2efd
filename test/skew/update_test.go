//go:build e2e

package skew

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/lab"
)

// podsOfUpdate is the number of pods that live during each update, at least.
const podsOfUpdate = 30

// gapLimit limits the time between the end of one driver and the moment in which the next
// serves. After an ordinary restart, the log of the next driver has no gap, and the test fails.
const gapLimit = time.Second

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
	var longestGap, extra time.Duration
	met := 0
	for _, update := range []struct {
		name string
		act  func(context.Context) error
	}{
		{"before → now", func(ctx context.Context) error { return now.install(ctx, f.Cluster) }},
		{"now → now", c.restart},
		{"now → before", func(ctx context.Context) error { return before.install(ctx, f.Cluster) }},
		{"before → now, again", func(ctx context.Context) error { return now.install(ctx, f.Cluster) }},
	} {
		began := time.Now()
		of, err := c.during(f.Ctx, podsOfUpdate, update.act)
		f.Must(err)
		took := c.handover(f)
		waiting, others := took.split(of)
		longest := slowest(of)
		t.Logf("%s: %s, gap %s, %d pods, median %s, slowest %s (%s, created %s after the beginning: %s); %d pods started during the handover, the slowest in %s, of the others in %s",
			update.name, time.Since(began).Round(time.Second), took.gap, len(of), median(of), longest.waited, longest.name, longest.began.Sub(began).Round(time.Millisecond), strings.Join(longest.steps, ", "),
			len(waiting), slowest(waiting).waited, slowest(others).waited)
		all, met = append(all, of...), met+len(waiting)
		longestGap = max(longestGap, took.gap)
		extra = max(extra, slowest(waiting).waited-slowest(others).waited)
	}
	if longestGap > gapLimit {
		t.Errorf("nobody was connected to the runtime for %s, more than %s", longestGap, gapLimit)
	}
	for _, l := range all {
		if l.idle != "" {
			t.Errorf("pod %s was Ready after %s, usual are %s: %s", l.name, l.waited, usual, l.idle)
		}
	}
	failed := failures(append(quiet, all...))
	if len(failed) > 0 {
		t.Errorf("%d pods failed:\n%s", len(failed), strings.Join(failed, "\n"))
	}
	f.Eventually(30*time.Second, func(context.Context) error { return c.nothingLeft(left) })
	// slowest compares the slowest pods with and without an update, handover the pods that started during a handover, which are
	// few or none, with the others of the same update.
	fmt.Printf("skew: pods=%d failed=%d slowest=%s handover=%s/%d gap=%s\n", len(all), len(failed), max(0, slowest(all).waited-slowest(quiet).waited).Round(time.Millisecond),
		extra.Round(time.Millisecond), met, longestGap.Round(time.Millisecond))
}

// handover is when a driver took the place of another: while it waited for the other one, the kubelet's calls waited, too.
type handover struct {
	began, ended time.Time
	// gap is the part of that time in which the runtime had nobody to call.
	gap time.Duration
}

var (
	waitsInLog = regexp.MustCompile(`(?m)^(\S+) .*"Another driver uses the state directory"`)
	tookInLog  = regexp.MustCompile(`(?m)^(\S+) .*"Took over from another driver".* duration="([^"]+)"`)
)

// handover finds the handover in the log of the driver that has taken over.
func (c *churn) handover(f *lab.Fixture) (h handover) {
	f.Helper()
	text, err := f.Cluster.Kubectl(f.Ctx, "-n", "nadra", "logs", "--timestamps", c.driver(f).Name)
	f.Must(err)
	waits, took := waitsInLog.FindStringSubmatch(text), tookInLog.FindStringSubmatch(text)
	if waits == nil || took == nil {
		f.Fatalf("the driver has not taken over from the one before:\n%s", text)
	}
	h.began, err = time.Parse(time.RFC3339Nano, waits[1])
	f.Must(err)
	h.ended, err = time.Parse(time.RFC3339Nano, took[1])
	f.Must(err)
	h.gap, err = time.ParseDuration(took[2])
	f.Must(err)
	return h
}

// split divides the pods of an update into those that started during the handover, and the others. The others started on
// the same busy machine, so the difference of the two is what the handover has cost.
func (h handover) split(all []life) (during, others []life) {
	for _, l := range all {
		if l.began.Before(h.ended) && l.began.Add(l.waited).After(h.began) {
			during = append(during, l)
		} else {
			others = append(others, l)
		}
	}
	return during, others
}

// nothingLeft returns an error if pods have left something on the node. The pods of the controllers and of the
// certificates are others than before, and the bridge stays.
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
			if controllers[kind]++; controllers[kind] > controllerReplicas+1 {
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

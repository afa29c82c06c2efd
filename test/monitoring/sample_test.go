package monitoring

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nadra-dev/nadra/internal/metrics"
)

// failing returns the state of a node on which everything fails, with all values that are
// possible.
func failing() metrics.State {
	return metrics.State{
		RequestTimeout: 500 * time.Millisecond,
		Unpublished:    time.Hour,
		Owned:          true,
		Ready:          map[string]bool{"kubelet": false, "nri": false, "slices": false, "queue": false},
		Blocked:        map[string]int{"attaching": 3, "retrying": 1, "failed": 2},
		Attachments:    map[string]int{"Prepared": 3, "Attaching": 2, "Attached": 40},
		WithoutRecords: 2,
		Lost:           1,
		Unclaimed:      map[string]int{"Prepared": 0, "Attaching": 1, "Attached": 5},
		Devices: map[metrics.Device]int{
			{Pool: "networks", State: "offered"}: 12, {Pool: "networks", State: "unusable"}: 1, {Pool: "networks", State: "lost"}: 1, {Pool: "networks", State: metrics.DeviceUnhealthy}: 1, {Pool: "networks", State: "not_owned"}: 0,
			{Pool: "pf-0000-3b-00-0", State: "offered"}: 7, {Pool: "pf-0000-3b-00-0", State: "withheld"}: 1, {Pool: "pf-0000-3b-00-0", State: "link_down"}: 0, {Pool: "pf-0000-3b-00-0", State: "not_owned"}: 0,
		},
		Orphans: map[string]int{"pending_del": 2, "sandbox": 1, "claim": 1, "cache": 1, "damaged": 1},
		Queues:  map[string]metrics.Queue{"attach": {Length: 4, Oldest: time.Hour, Stuck: 2}, "detach": {Length: 1, Oldest: time.Second}, "network-status": {Length: 2, Oldest: time.Minute}, "claim-status": {Length: 9, Oldest: time.Hour}},
		Writes:  100, Waited: 50,
	}
}

// nodeSample returns the driver's meters with a value for every metric. happens increments
// all counters.
func nodeSample(state func() metrics.State) (n *metrics.Node, happens func()) {
	n = metrics.NewNode()
	n.Watch(state)
	broken := errors.New("broken")
	return n, func() {
		for _, nad := range []struct{ name, conf string }{{"blue", `{"plugins":[{"type":"macvlan"}]}`}, {"red", `{"type":"bridge"}`}} {
			m := n.Network("default", nad.name, []byte(nad.conf))
			m.Added(30*time.Millisecond, nil, false)
			m.Added(time.Second, broken, true)
			m.Added(time.Second, broken, false)
			m.Deleted(20*time.Millisecond, nil)
			m.Deleted(time.Second, broken)
		}
		for _, verb := range []string{"ADD", "DEL", "CHECK", "STATUS", "GC"} {
			n.Executed("macvlan", verb, 20*time.Millisecond)
		}
		for _, event := range metrics.Events() {
			n.Hooked(event, 1900*time.Millisecond, 2*time.Second)
		}
		n.Connected()
		n.PodEnded(50*time.Millisecond, nil, false)
		n.PodEnded(time.Second, errors.New("no address"), false)
		n.PodEnded(time.Second, context.Canceled, true)
		n.Prepared(2, 1, 5*time.Millisecond)
		n.Unprepared(2, 1, 5*time.Millisecond)
		for _, o := range []metrics.Outcome{metrics.Passed, metrics.Held, metrics.Released, metrics.Refused} {
			n.Gate(o, 1)
		}
		n.UnclaimedRefused()
		n.PublishFailed()
	}
}

// controllerSample returns the same for the controller.
func controllerSample(t *testing.T) (registry *prometheus.Registry, happens func()) {
	t.Helper()
	registry = prometheus.NewRegistry()
	c, err := metrics.NewController(registry)
	if err != nil {
		t.Fatal(err)
	}
	c.Pods("nadra", 20)
	c.Pods("multus", 30)
	c.Pods("none", 1)
	c.WithoutDriver("worker-3", true)
	c.CertificateExpires(time.Now().Add(24 * time.Hour))
	return registry, func() {
		for _, d := range []string{"converted", "multus", "untouched", "refused"} {
			c.Decided(d)
		}
		for _, w := range []string{"mutate-pods", "validate-claims"} {
			c.Answers(w).Observe(4)
		}
	}
}

// metric has the samples that a handler serves under one name.
type metric struct {
	kind string
	// labels has its own labels, without those that a scrape adds, with their values.
	labels map[string]map[string]bool
}

// servedMetrics returns all metrics of the driver, or of the controller.
func servedMetrics(t *testing.T, from prometheus.Gatherer) map[string]metric {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]metric{}
	for _, f := range families {
		m := metric{kind: kinds[f.GetType().String()], labels: map[string]map[string]bool{}}
		for _, s := range f.Metric {
			for _, l := range s.Label {
				if m.labels[l.GetName()] == nil {
					m.labels[l.GetName()] = map[string]bool{}
				}
				m.labels[l.GetName()][l.GetValue()] = true
			}
			if h := s.GetHistogram(); h != nil {
				bounds := map[string]bool{"+Inf": true}
				for _, b := range h.Bucket {
					bounds[number(b.GetUpperBound())] = true
				}
				buckets := metric{kind: m.kind, labels: maps.Clone(m.labels)}
				buckets.labels["le"] = bounds
				out[f.GetName()+"_bucket"] = buckets
				out[f.GetName()+"_count"], out[f.GetName()+"_sum"] = m, m
			}
		}
		out[f.GetName()] = m
	}
	return out
}

var kinds = map[string]string{"COUNTER": "counter", "GAUGE": "gauge", "HISTOGRAM": "histogram", "SUMMARY": "summary"}

// everything returns the metrics of both, and those that a scrape adds.
func everything(t *testing.T) map[string]metric {
	t.Helper()
	n, nodeHappens := nodeSample(failing)
	c, controllerHappens := controllerSample(t)
	nodeHappens()
	controllerHappens()
	out := servedMetrics(t, n.Gather())
	maps.Copy(out, servedMetrics(t, c))
	build := out["nadra_build_info"]
	build.labels["version"], build.labels["revision"] = nil, nil
	out["up"] = metric{kind: "gauge"}
	return out
}

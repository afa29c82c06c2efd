package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// State is the state of the driver at the time of a scrape. Its maps include zeros, because a
// missing series looks like an unknown value.
type State struct {
	// Connected is true if the container runtime's NRI is connected and synchronised,
	// Registered if the kubelet has registered the driver, and Owned if nadra owns the
	// node.
	Connected, Registered, Owned bool
	// RequestTimeout is the runtime's limit for a hook, or zero while it is not known.
	RequestTimeout time.Duration
	// Unpublished is the time for which the API server has lacked the node's current
	// ResourceSlices, or zero if it has them.
	Unpublished time.Duration
	// Ready has the checks of /readyz.
	Ready map[string]bool
	// Blocked counts pods whose containers wait for networks, by the attach's state.
	Blocked map[string]int
	// Attachments counts records by phase, and Unclaimed those of pods without a claim among them.
	Attachments, Unclaimed map[string]int
	// WithoutRecords counts pods without a claim that are to have networks and have no record yet.
	WithoutRecords int
	// Lost counts attachments whose interface or address is gone, or is another host's.
	Lost int
	// Devices counts networks and functions of hardware.
	Devices map[Device]int
	// Orphans counts what deleted pods have left, by kind.
	Orphans map[string]int
	// Queues are queues of operations, by name.
	Queues map[string]Queue
	// Writes is the number of written files of the driver's state, and Waited the number
	// of those that a caller waited for until they were on disk.
	Writes, Waited uint64
}

// Device is a group of devices: the last part of their DRA pool's name, and their state.
type Device struct{ Pool, State string }

// DeviceUnhealthy is the state of networks whose plugins answer STATUS with an error.
const DeviceUnhealthy = "unhealthy"

// Queue is a queue of operations that wait or run.
type Queue struct {
	Length int
	// Oldest is the time for which the oldest operation has been in the queue.
	Oldest time.Duration
	// Stuck is the number of operations that have exceeded their own limit.
	Stuck int
}

// Watch makes every scrape call state. It may be called once.
func (n *Node) Watch(state func() State) {
	n.registry.MustRegister(&watched{state: state})
}

// watched is the collector of a State.
type watched struct{ state func() State }

// emit adds one value with its label values.
type emit func(value float64, labels ...string)

// reading is one metric of a State.
type reading struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(State, emit)
}

// gauge returns a gauge of a State.
func gauge(name, help string, read func(State, emit), labels ...string) reading {
	return reading{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue, read}
}

// one returns a function that emits a single value.
func one(value func(State) float64) func(State, emit) {
	return func(s State, add emit) { add(value(s)) }
}

// each returns a function that emits a value for each key.
func each(values func(State) map[string]int) func(State, emit) {
	return func(s State, add emit) {
		for key, value := range values(s) {
			add(float64(value), key)
		}
	}
}

var readings = []reading{
	gauge("nadra_nri_connected", "Whether the container runtime's NRI is connected and synchronised.",
		one(func(s State) float64 { return truth(s.Connected) })),
	gauge("nadra_nri_request_timeout_seconds", "The container runtime's limit for a hook; 0 while it is not known.",
		one(func(s State) float64 { return s.RequestTimeout.Seconds() })),
	gauge("nadra_kubelet_registered", "Whether the kubelet has registered the driver.",
		one(func(s State) float64 { return truth(s.Registered) })),
	gauge("nadra_node_owned", "Whether nadra owns the node.",
		one(func(s State) float64 { return truth(s.Owned) })),
	gauge("nadra_ready", "The checks of /readyz: 1 if the check passes.",
		func(s State, add emit) {
			for check, ok := range s.Ready {
				add(truth(ok), check)
			}
		}, "check"),
	gauge("nadra_blocked_pods", "Pods whose containers wait for networks, by the state of the attach.",
		each(func(s State) map[string]int { return s.Blocked }), "state"),
	gauge("nadra_attachments", "Attachments of prepared claims and of pods without a claim, by phase.",
		each(func(s State) map[string]int { return s.Attachments }), "phase"),
	gauge("nadra_unclaimed_attachments", "Attachments of pods without a claim, by phase.",
		each(func(s State) map[string]int { return s.Unclaimed }), "phase"),
	gauge("nadra_attachments_lost", "Attachments of running pods whose interface or address is gone, or is another host's, by the latest sweep.",
		one(func(s State) float64 { return float64(s.Lost) })),
	gauge("nadra_pods_without_records", "Pods without a claim that should have networks, by annotation and policy, and have no record of them.",
		one(func(s State) float64 { return float64(s.WithoutRecords) })),
	gauge("nadra_devices", "Networks (pool networks) and functions of resource pools on the node, by state.",
		func(s State, add emit) {
			for d, n := range s.Devices {
				add(float64(n), d.Pool, d.State)
			}
		}, "pool", "state"),
	gauge("nadra_orphans", "Leftovers of deleted pods that are not cleared yet, by kind.",
		each(func(s State) map[string]int { return s.Orphans }), "kind"),
	gauge("nadra_queue_length", "Operations in a queue that wait or run.",
		func(s State, add emit) {
			for name, q := range s.Queues {
				add(float64(q.Length), name)
			}
		}, "queue"),
	gauge("nadra_queue_oldest_seconds", "Time for which the oldest operation has been in a queue; 0 if the queue is empty.",
		func(s State, add emit) {
			for name, q := range s.Queues {
				add(q.Oldest.Seconds(), name)
			}
		}, "queue"),
	gauge("nadra_queue_stuck", "Operations in a queue that have exceeded their own limit.",
		func(s State, add emit) {
			for name, q := range s.Queues {
				add(float64(q.Stuck), name)
			}
		}, "queue"),
	gauge("nadra_slices_unpublished_seconds", "Time for which the API server has lacked the node's current ResourceSlices; 0 if it has them.",
		one(func(s State) float64 { return s.Unpublished.Seconds() })),
	{
		desc: prometheus.NewDesc("nadra_checkpoint_writes_total", "Written files of the driver's state, by whether a caller waited until the file was on disk.", []string{"waited"}, nil),
		kind: prometheus.CounterValue,
		read: func(s State, add emit) {
			add(float64(s.Waited), "true")
			add(float64(s.Writes-s.Waited), "false")
		},
	},
}

// Describe implements prometheus.Collector.
func (*watched) Describe(to chan<- *prometheus.Desc) {
	for _, r := range readings {
		to <- r.desc
	}
}

// Collect reads the state once and emits all of it.
func (w *watched) Collect(to chan<- prometheus.Metric) {
	s := w.state()
	for _, r := range readings {
		r.read(s, func(value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(r.desc, r.kind, value, labels...)
		})
	}
}

// truth returns 1 for true and 0 for false.
func truth(value bool) float64 {
	if value {
		return 1
	}
	return 0
}

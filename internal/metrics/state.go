package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// State is how things are on a node at the moment of a scrape. Its maps have
// their zeros, too: what is not there cannot be told from what is not known.
type State struct {
	// Connected says that the container runtime's NRI is connected and
	// synchronised, Registered that the kubelet knows the driver, and Owned that
	// the node's networks are nadra's.
	Connected, Registered, Owned bool
	// RequestTimeout is the runtime's limit for a hook; zero while it is not
	// known.
	RequestTimeout time.Duration
	// Unpublished is for how long the API server has not had what the node
	// offers; zero when it has.
	Unpublished time.Duration
	// Ready has the checks of /readyz.
	Ready map[string]bool
	// Blocked are the pods whose containers wait for networks, by PodState.
	Blocked map[string]int
	// Attachments are the records, by phase.
	Attachments map[string]int
	// Devices are networks and functions of hardware.
	Devices map[Device]int
	// Orphans are what is left over and not cleared yet, by kind.
	Orphans map[string]int
	// Queues are what waits or is being done.
	Queues map[string]Queue
	// Writes are files of the state that were written, and Waited those of them
	// that somebody waited for until they were on disk.
	Writes, Waited uint64
}

// Device is a group of devices: the last part of their DRA pool's name, and
// what is to be said of them.
type Device struct{ Pool, State string }

// Queue is work that was asked for and is not done.
type Queue struct {
	Length int
	// Oldest is for how long the oldest of it has been there.
	Oldest time.Duration
	// Stuck counts work that has outlived its own limit.
	Stuck int
}

// Watch has every scrape ask for the state. It is called once at most.
func (n *Node) Watch(state func() State) {
	if n != nil {
		n.registry.MustRegister(&watched{state: state})
	}
}

// watched collects a State.
type watched struct{ state func() State }

// emit tells one value, with those of its labels.
type emit func(value float64, labels ...string)

// reading is one metric of a State.
type reading struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(State, emit)
}

func gauge(name, help string, read func(State, emit), labels ...string) reading {
	return reading{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue, read}
}

// one reads a single value.
func one(value func(State) float64) func(State, emit) {
	return func(s State, tell emit) { tell(value(s)) }
}

// each reads a value for each key.
func each(values func(State) map[string]int) func(State, emit) {
	return func(s State, tell emit) {
		for key, value := range values(s) {
			tell(float64(value), key)
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
	gauge("nadra_node_owned", "Whether the node's networks are nadra's.",
		one(func(s State) float64 { return truth(s.Owned) })),
	gauge("nadra_ready", "The checks of /readyz: 1 for one that passes.",
		func(s State, tell emit) {
			for check, ok := range s.Ready {
				tell(truth(ok), check)
			}
		}, "check"),
	gauge("nadra_blocked_pods", "Pods whose containers are kept waiting for networks.",
		each(func(s State) map[string]int { return s.Blocked }), "state"),
	gauge("nadra_attachments", "Attachments that claims are prepared for, by how far they have come.",
		each(func(s State) map[string]int { return s.Attachments }), "phase"),
	gauge("nadra_devices", "Networks (pool networks) and functions of resource pools on the node, by whether they are offered.",
		func(s State, tell emit) {
			for d, n := range s.Devices {
				tell(float64(n), d.Pool, d.State)
			}
		}, "pool", "state"),
	gauge("nadra_orphans", "What pods that are gone have left, and that is not cleared yet.",
		each(func(s State) map[string]int { return s.Orphans }), "kind"),
	gauge("nadra_queue_length", "Operations that were asked for and are not done.",
		func(s State, tell emit) {
			for name, q := range s.Queues {
				tell(float64(q.Length), name)
			}
		}, "queue"),
	gauge("nadra_queue_oldest_seconds", "For how long the oldest operation of a queue has been in it; 0 when there is none.",
		func(s State, tell emit) {
			for name, q := range s.Queues {
				tell(q.Oldest.Seconds(), name)
			}
		}, "queue"),
	gauge("nadra_queue_stuck", "Operations of a queue that have outlived their own limit.",
		func(s State, tell emit) {
			for name, q := range s.Queues {
				tell(float64(q.Stuck), name)
			}
		}, "queue"),
	gauge("nadra_slices_unpublished_seconds", "For how long the API server has not had the ResourceSlices that the node wants; 0 when it has.",
		one(func(s State) float64 { return s.Unpublished.Seconds() })),
	{
		desc: prometheus.NewDesc("nadra_checkpoint_writes_total", "Files of the driver's state that were written.", []string{"waited"}, nil),
		kind: prometheus.CounterValue,
		read: func(s State, tell emit) {
			tell(float64(s.Waited), "true")
			tell(float64(s.Writes-s.Waited), "false")
		},
	},
}

// Describe tells what there may be.
func (*watched) Describe(to chan<- *prometheus.Desc) {
	for _, r := range readings {
		to <- r.desc
	}
}

// Collect asks once and tells all.
func (w *watched) Collect(to chan<- prometheus.Metric) {
	s := w.state()
	for _, r := range readings {
		r.read(s, func(value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(r.desc, r.kind, value, labels...)
		})
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

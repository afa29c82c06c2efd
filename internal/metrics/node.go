package metrics

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Node has the meters of one node's driver. Make it with NewNode. A nil *Node
// measures nothing.
type Node struct {
	registry *prometheus.Registry

	adds, dels       *prometheus.CounterVec
	addTook, delTook *prometheus.HistogramVec
	execTook         *prometheus.HistogramVec
	podTook          *prometheus.HistogramVec

	hookTook    *prometheus.HistogramVec
	margin      prometheus.Histogram
	connections prometheus.Counter

	prepared, unprepared       *prometheus.CounterVec
	prepareTook, unprepareTook prometheus.Histogram
	containers                 *prometheus.CounterVec
	unclaimed, publishFails    prometheus.Counter
	statusLate                 prometheus.Counter

	mu       sync.RWMutex // guards what follows
	networks map[networkKey]*Network
	execs    map[execKey]prometheus.Observer
}

// Values of the label result.
const (
	success = "success"
	failure = "error"
	// transient is a failure after which the same is tried again at once.
	transient = "transient"
	// withdrawn is what nobody wanted any more: its pod was deleted, for one.
	withdrawn = "withdrawn"
)

// Durations in seconds, from what a plugin takes that has nothing to do to the
// limit of what is measured.
var (
	ofPlugins = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	ofPods    = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	ofHooks   = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 5, 10}
	ofClaims  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 15, 30, 45}
	// ofMargins has zero: what is below was too late.
	ofMargins = []float64{0, .1, .25, .5, 1, 1.5, 2, 5, 10}
)

// NewNode returns meters with a registry of their own, in which the process and
// Go's runtime are measured, too.
func NewNode() *Node {
	n := &Node{
		registry: prometheus.NewRegistry(),
		networks: map[networkKey]*Network{}, execs: map[execKey]prometheus.Observer{},

		adds: counters("nadra_attach_total", "Attempts to attach a network (CNI ADD of its chain), by network and result.", "nad_namespace", "nad", "cni_type", "result"),
		dels: counters("nadra_detach_total", "Attempts to detach a network (CNI DEL of its chain), by network and result.", "nad_namespace", "nad", "cni_type", "result"),

		addTook:  histograms("nadra_attach_duration_seconds", "How long it took to attach a network, where that succeeded.", ofPlugins, "cni_type"),
		delTook:  histograms("nadra_detach_duration_seconds", "How long it took to detach a network, where that succeeded.", ofPlugins, "cni_type"),
		execTook: histograms("nadra_cni_exec_duration_seconds", "How long one process of a CNI plugin ran, whatever came of it.", ofPlugins, "plugin", "verb"),
		podTook:  histograms("nadra_pod_attach_duration_seconds", "How long it took from a sandbox's start until all of its networks were attached or given up.", ofPods, "result"),

		hookTook:    histograms("nadra_nri_hook_duration_seconds", "How long the container runtime, and with it all pods of the node, waited for an event's hook.", ofHooks, "event"),
		margin:      histogram("nadra_nri_deadline_margin_seconds", "What a hook left of the runtime's request timeout; below zero the runtime has dropped the driver.", ofMargins),
		connections: counter("nadra_nri_connections_total", "Connections to the container runtime that came to be synchronised."),

		prepared:      counters("nadra_prepare_total", "Claims that the kubelet asked to prepare, by result.", "result"),
		unprepared:    counters("nadra_unprepare_total", "Claims that the kubelet asked to unprepare, by result.", "result"),
		prepareTook:   histogram("nadra_prepare_duration_seconds", "How long the kubelet waited for the claims of a pod to be prepared.", ofClaims),
		unprepareTook: histogram("nadra_unprepare_duration_seconds", "How long the kubelet waited for the claims of a pod to be unprepared.", ofClaims),

		containers:   counters("nadra_gate_containers_total", "Containers of pods with claims, by what became of them at the gate.", "outcome"),
		unclaimed:    counter("nadra_unclaimed_pods_refused_total", "Sandboxes refused of pods that name networks and have no claim, on a node of nadra's."),
		statusLate:   counter("nadra_network_status_late_total", "Pods whose containers waited for longer than 2 s until network-status was stored."),
		publishFails: counter("nadra_slices_errors_total", "Attempts to publish ResourceSlices that failed."),
	}
	n.registry.MustRegister(
		n.adds, n.dels, n.addTook, n.delTook, n.execTook, n.podTook, n.hookTook, n.margin, n.connections,
		n.prepared, n.unprepared, n.prepareTook, n.unprepareTook, n.containers, n.unclaimed, n.statusLate, n.publishFails,
		buildInfo(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	n.begin()
	return n
}

// begin has series at zero of what is bounded anyway: a rate needs a first
// value, and an alert one at all.
func (n *Node) begin() {
	for _, event := range Events() {
		n.hookTook.WithLabelValues(event)
	}
	for _, result := range []string{success, failure} {
		n.prepared.WithLabelValues(result)
		n.unprepared.WithLabelValues(result)
	}
	for _, result := range []string{success, failure, withdrawn} {
		n.podTook.WithLabelValues(result)
	}
	for _, o := range []Outcome{Passed, Held, Released, Refused} {
		n.containers.WithLabelValues(string(o))
	}
}

// Handler answers scrapes. Two at a time are enough for anybody who has a right
// to them, and others shall not keep the driver from its work.
func (n *Node) Handler() http.Handler {
	return promhttp.HandlerFor(n.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: 10 * time.Second})
}

// Gather is what a scrape would see.
func (n *Node) Gather() prometheus.Gatherer { return n.registry }

func opts(name, help string) prometheus.Opts { return prometheus.Opts{Name: name, Help: help} }

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts(opts(name, help)))
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

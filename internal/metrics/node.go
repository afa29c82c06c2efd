package metrics

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Node is the metrics of a node's driver.
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

	mu       sync.RWMutex // guards the following fields
	networks map[networkKey]*Network
	execs    map[execKey]prometheus.Observer
}

// Values of the label result.
const (
	success = "success"
	failure = "error"
	// transient is for a failure after which the driver retries soon.
	transient = "transient"
	// cancelled is for an attach that was cancelled, for example because the pod was
	// deleted.
	cancelled = "cancelled"
)

// Buckets in seconds, from the time of a plugin that has nothing to do to the limit of the
// measured operation.
var (
	ofPlugins = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	ofPods    = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	ofHooks   = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 5, 10}
	ofClaims  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 15, 30, 45}
	// ofMargins includes zero: hooks below it were too late.
	ofMargins = []float64{0, .1, .25, .5, 1, 1.5, 2, 5, 10}
)

// NewNode returns metrics with a registry of their own, which also has those of the process
// and of Go's runtime.
func NewNode() *Node {
	n := &Node{
		registry: prometheus.NewRegistry(),
		networks: map[networkKey]*Network{}, execs: map[execKey]prometheus.Observer{},

		adds: counters("nadra_attach_total", "CNI ADDs of networks, by network and result.", "nad_namespace", "nad", "cni_type", "result"),
		dels: counters("nadra_detach_total", "CNI DELs of networks, by network and result.", "nad_namespace", "nad", "cni_type", "result"),

		addTook:  histograms("nadra_attach_duration_seconds", "Time of successful ADDs.", ofPlugins, "cni_type"),
		delTook:  histograms("nadra_detach_duration_seconds", "Time of successful DELs.", ofPlugins, "cni_type"),
		execTook: histograms("nadra_cni_exec_duration_seconds", "Time of CNI plugins' processes, also of failed ones.", ofPlugins, "plugin", "verb"),
		podTook:  histograms("nadra_pod_attach_duration_seconds", "Time from a sandbox's start until all of its networks were attached, had failed, or the attach was cancelled.", ofPods, "result"),

		hookTook:    histograms("nadra_nri_hook_duration_seconds", "Time that the container runtime, and with it all pods of the node, waited for the hook of an event.", ofHooks, "event"),
		margin:      histogram("nadra_nri_deadline_margin_seconds", "Part of the runtime's request timeout that a hook left; below zero the runtime has dropped the driver.", ofMargins),
		connections: counter("nadra_nri_connections_total", "Connections to the container runtime that were synchronised."),

		prepared:      counters("nadra_prepare_total", "Claims that the kubelet asked to prepare, by result.", "result"),
		unprepared:    counters("nadra_unprepare_total", "Claims that the kubelet asked to unprepare, by result.", "result"),
		prepareTook:   histogram("nadra_prepare_duration_seconds", "Time that the kubelet waited for the claims of a pod to be prepared.", ofClaims),
		unprepareTook: histogram("nadra_unprepare_duration_seconds", "Time that the kubelet waited for the claims of a pod to be unprepared.", ofClaims),

		containers:   counters("nadra_gate_containers_total", "Containers of pods with claims, by the gate's decision.", "outcome"),
		unclaimed:    counter("nadra_unclaimed_pods_refused_total", "Refused sandboxes of pods that name networks by annotation and have no claim, on a node that nadra owns."),
		statusLate:   counter("nadra_network_status_late_total", "Pods whose containers waited more than 2 s for network-status to be stored."),
		publishFails: counter("nadra_slices_errors_total", "Failed attempts to publish ResourceSlices."),
	}
	n.registry.MustRegister(
		n.adds, n.dels, n.addTook, n.delTook, n.execTook, n.podTook, n.hookTook, n.margin, n.connections,
		n.prepared, n.unprepared, n.prepareTook, n.unprepareTook, n.containers, n.unclaimed, n.statusLate, n.publishFails,
		buildInfo(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	n.createSeries()
	return n
}

// createSeries creates the series with a fixed list of label values: rates need a first
// value, and alerts need a series.
func (n *Node) createSeries() {
	for _, event := range Events() {
		n.hookTook.WithLabelValues(event)
	}
	for _, result := range []string{success, failure} {
		n.prepared.WithLabelValues(result)
		n.unprepared.WithLabelValues(result)
	}
	for _, result := range []string{success, failure, cancelled} {
		n.podTook.WithLabelValues(result)
	}
	for _, o := range []Outcome{Passed, Held, Released, Refused} {
		n.containers.WithLabelValues(string(o))
	}
}

// Handler returns the handler of scrapes. It answers two at a time, so that scrapes cannot
// slow the driver down.
func (n *Node) Handler() http.Handler {
	return promhttp.HandlerFor(n.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: 10 * time.Second})
}

// Gather returns what a scrape sees.
func (n *Node) Gather() prometheus.Gatherer { return n.registry }

// opts returns the options of a metric.
func opts(name, help string) prometheus.Opts { return prometheus.Opts{Name: name, Help: help} }

// counter returns a counter.
func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts(opts(name, help)))
}

// counters returns counters by labels.
func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), labels)
}

// histogram returns a histogram.
func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// histograms returns histograms by labels.
func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

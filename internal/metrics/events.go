package metrics

import "time"

// The hooks, by NRI's names of their events.
const (
	Synchronize      = "Synchronize"
	RunPodSandbox    = "RunPodSandbox"
	CreateContainer  = "CreateContainer"
	StopPodSandbox   = "StopPodSandbox"
	RemovePodSandbox = "RemovePodSandbox"
)

// Events are all of them.
func Events() []string {
	return []string{Synchronize, RunPodSandbox, CreateContainer, StopPodSandbox, RemovePodSandbox}
}

// Hooked measures a hook that the runtime would have waited for up to limit.
func (n *Node) Hooked(event string, took, limit time.Duration) {
	if n == nil {
		return
	}
	n.hookTook.WithLabelValues(event).Observe(took.Seconds())
	n.margin.Observe((limit - took).Seconds())
}

// Connected counts a connection to the runtime.
func (n *Node) Connected() {
	if n != nil {
		n.connections.Inc()
	}
}

// PodAttached measures the attaching of a sandbox, which has come to its end.
func (n *Node) PodAttached(took time.Duration) { n.podEnded(success, took) }

// PodFailed is for one whose networks could not be attached.
func (n *Node) PodFailed(took time.Duration) { n.podEnded(failure, took) }

// PodWithdrawn is for one that was not wanted any more.
func (n *Node) PodWithdrawn(took time.Duration) { n.podEnded(withdrawn, took) }

func (n *Node) podEnded(result string, took time.Duration) {
	if n != nil {
		n.podTook.WithLabelValues(result).Observe(took.Seconds())
	}
}

// Prepared counts the claims of one call of the kubelet.
func (n *Node) Prepared(claims, failed int, took time.Duration) {
	if n == nil {
		return
	}
	n.prepared.WithLabelValues(success).Add(float64(claims - failed))
	n.prepared.WithLabelValues(failure).Add(float64(failed))
	n.prepareTook.Observe(took.Seconds())
}

// Unprepared counts the claims of one call of the kubelet.
func (n *Node) Unprepared(claims, failed int, took time.Duration) {
	if n == nil {
		return
	}
	n.unprepared.WithLabelValues(success).Add(float64(claims - failed))
	n.unprepared.WithLabelValues(failure).Add(float64(failed))
	n.unprepareTook.Observe(took.Seconds())
}

// Outcome is what becomes of a container at the gate, as the driver sees it.
type Outcome string

// The outcomes. A container that is held is counted again when its pod's
// networks come (Released) or do not (Refused); one whose pod goes away
// meanwhile is not.
const (
	// Passed had all networks when it was created.
	Passed Outcome = "passed"
	// Held was created while its pod was being attached: the gate waits.
	Held Outcome = "held"
	// Released was held, and its pod is attached.
	Released Outcome = "released"
	// Refused lacks a network that could not be attached.
	Refused Outcome = "refused"
)

// Gate counts containers.
func (n *Node) Gate(o Outcome, containers int) {
	if n != nil && containers > 0 {
		n.containers.WithLabelValues(string(o)).Add(float64(containers))
	}
}

// NetworkStatusLate counts a pod whose containers wait for its network-status.
func (n *Node) NetworkStatusLate() {
	if n != nil {
		n.statusLate.Inc()
	}
}

// UnclaimedRefused counts a sandbox of a pod without a claim.
func (n *Node) UnclaimedRefused() {
	if n != nil {
		n.unclaimed.Inc()
	}
}

// PublishFailed counts an attempt to publish slices that failed.
func (n *Node) PublishFailed() {
	if n != nil {
		n.publishFails.Inc()
	}
}

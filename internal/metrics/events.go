package metrics

import "time"

// Values of the label event: NRI's names of the events with hooks.
const (
	Synchronize      = "Synchronize"
	RunPodSandbox    = "RunPodSandbox"
	CreateContainer  = "CreateContainer"
	StopPodSandbox   = "StopPodSandbox"
	RemovePodSandbox = "RemovePodSandbox"
)

// Events returns the events with hooks.
func Events() []string {
	return []string{Synchronize, RunPodSandbox, CreateContainer, StopPodSandbox, RemovePodSandbox}
}

// Hooked measures a hook, which the runtime waits for until limit.
func (n *Node) Hooked(event string, took, limit time.Duration) {
	n.hookTook.WithLabelValues(event).Observe(took.Seconds())
	n.margin.Observe((limit - took).Seconds())
}

// Connected counts a connection to the runtime.
func (n *Node) Connected() {
	n.connections.Inc()
}

// PodEnded measures the attach of a sandbox, which has ended with err. isCancelled is true if it was cancelled.
func (n *Node) PodEnded(took time.Duration, err error, isCancelled bool) {
	result := success
	switch {
	case isCancelled:
		result = cancelled
	case err != nil:
		result = failure
	}
	n.podTook.WithLabelValues(result).Observe(took.Seconds())
}

// Prepared counts the claims of one NodePrepareResources call.
func (n *Node) Prepared(claims, failed int, took time.Duration) {
	n.prepared.WithLabelValues(success).Add(float64(claims - failed))
	n.prepared.WithLabelValues(failure).Add(float64(failed))
	n.prepareTook.Observe(took.Seconds())
}

// Unprepared counts the claims of one NodeUnprepareResources call.
func (n *Node) Unprepared(claims, failed int, took time.Duration) {
	n.unprepared.WithLabelValues(success).Add(float64(claims - failed))
	n.unprepared.WithLabelValues(failure).Add(float64(failed))
	n.unprepareTook.Observe(took.Seconds())
}

// Outcome is the gate's decision on a container, from the driver's point of view.
type Outcome string

// The outcomes. A held container is counted again when its pod's networks are attached
// (Released) or have failed (Refused), but not if its pod is deleted meanwhile.
const (
	// Passed is for a container whose pod had all networks when it was created.
	Passed Outcome = "passed"
	// Held is for a container that was created during its pod's attach: the gate waits.
	Held Outcome = "held"
	// Released is for a held container whose pod is attached.
	Released Outcome = "released"
	// Refused is for a container without a network that could not be attached.
	Refused Outcome = "refused"
)

// Gate counts containers.
func (n *Node) Gate(o Outcome, containers int) {
	if containers > 0 {
		n.containers.WithLabelValues(string(o)).Add(float64(containers))
	}
}

// NetworkStatusLate counts a pod whose containers wait long for its network-status.
func (n *Node) NetworkStatusLate() {
	n.statusLate.Inc()
}

// UnclaimedRefused counts a refused sandbox of a pod without a claim.
func (n *Node) UnclaimedRefused() {
	n.unclaimed.Inc()
}

// PublishFailed counts a failed attempt to publish slices.
func (n *Node) PublishFailed() {
	n.publishFails.Inc()
}

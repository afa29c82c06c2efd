package driver

import (
	"fmt"
	"time"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
)

// silentAfter is longer than any healthy loop stays silent. The longest turn is the sweep of one
// pod.
const silentAfter = 5 * time.Minute

// Check is one of the checks of the driver's health.
type Check struct {
	Name string
	// OK is true if the check passes. Detail describes the state either way.
	OK     bool
	Detail string
}

// Live checks that the driver's loops turn. It takes their locks: a lock that is never
// released prevents the answer, and so fails the check, too.
func (d *Driver) Live() []Check {
	now := time.Now()
	d.queues(now)
	d.store.PendingDELs()
	var out []Check
	for _, loop := range []struct {
		name string
		*background.Heartbeat
	}{{slicewriter.Networks, &d.networks.Heartbeat}, {slicewriter.Hardware, &d.hardware.Heartbeat}, {"sweep", &d.sweeper.heartbeat}} {
		if silence, began := loop.Silence(now); began {
			out = append(out, turns(loop.name, silence))
		}
	}
	return out
}

// turns returns the check of a loop.
func turns(loop string, silence time.Duration) Check {
	return Check{loop, silence < silentAfter, fmt.Sprintf("last turn %s ago, at most %s", rounded(silence), silentAfter)}
}

// StateCheck is the name of the only check of a driver without the state directory.
const StateCheck = "state"

// Ready checks that pods with networks can start on this node. A driver that waits for the end of
// another, which cannot be asked to hand over, is ready: otherwise no rollout would end the other.
func (d *Driver) Ready() []Check {
	if !d.successor.has() {
		w := d.successor.waiting.Load()
		return []Check{{StateCheck, w.ready, w.reason}}
	}
	now := time.Now()
	r := readiness{
		now: now, started: d.started, nadsRead: d.nadsRead.Load(), owned: d.owner.owned(), queues: d.queues(now),
		kubelet: d.retrigger.latest.Load(), nri: d.runtime.state(), slices: d.slices.Failure(d.started),
	}
	return r.checks()
}

// queues counts the operations that run or wait.
func (d *Driver) queues(now time.Time) map[string]metrics.Queue {
	attaches, _ := d.jobs.queue(now)
	return map[string]metrics.Queue{
		queueAttach: attaches, queueDetach: d.operations.Detaches(now),
		queueNetworkStatus: d.networkStatus.Queue(now), queueClaimStatus: d.claimStatus.Queue(now),
	}
}

// The queues. Containers wait for the first and the third, and nobody for the last.
const (
	queueAttach        = "attach"
	queueDetach        = "detach"
	queueNetworkStatus = "network-status"
	queueClaimStatus   = "claim-status"
)

// readiness has what decides whether the driver is ready.
type readiness struct {
	now, started time.Time
	nadsRead     bool
	// owned is true if the node's networks are nadra's.
	owned bool
	// kubelet is the kubelet's latest answer to the registration; nil before.
	kubelet *registration
	nri     linkState
	slices  slicewriter.Failure
	queues  map[string]metrics.Queue
}

// checks returns all checks. Before the NADs were read, nothing else can succeed.
func (r *readiness) checks() []Check {
	all := []Check{r.registered(), r.connected(), r.published(), r.moving()}
	for i := range all {
		if !r.nadsRead && !all[i].OK {
			all[i].Detail = "not yet: the NetworkAttachmentDefinitions are being read since " + timestamp(r.started) + ", which comes first"
		}
	}
	return all
}

// registered checks that the kubelet has registered the driver.
func (r *readiness) registered() Check {
	const name = "kubelet"
	switch {
	case r.kubelet == nil:
		return Check{name, false, "not registered since " + timestamp(r.started) + ": the kubelet has not answered to the socket in its plugin registration directory"}
	case r.kubelet.refused != "":
		return Check{name, false, "refused by the kubelet at " + timestamp(r.kubelet.at) + ": " + r.kubelet.refused}
	}
	return Check{name, true, "registered since " + timestamp(r.kubelet.at)}
}

// connected checks that the runtime is connected.
func (r *readiness) connected() Check {
	const name = "nri"
	if r.nri.up {
		return Check{name, true, "connected and synchronised since " + timestamp(r.nri.since)}
	}
	since, detail := r.nri.since, ""
	if since.IsZero() {
		since, detail = r.started, "; is NRI enabled in the runtime's configuration?"
	}
	if r.nri.err != nil {
		detail = ": " + r.nri.err.Error() + detail
	}
	return Check{name, false, "not connected since " + timestamp(since) + detail}
}

// published checks that the API server has all slices. A node with nothing to publish passes: it
// can be given to nadra.
func (r *readiness) published() Check {
	const name = "slices"
	switch {
	case !r.owned:
		return Check{name, true, "nothing to publish: the node's networks are not nadra's"}
	case r.slices.Err != nil:
		return Check{name, false, "not published since " + timestamp(r.slices.Since) + ": " + r.slices.Err.Error()}
	}
	return Check{name, true, "published"}
}

// moving checks that no operation is stuck.
func (r *readiness) moving() Check {
	attach, detach := r.queues[queueAttach], r.queues[queueDetach]
	oldest, stuck := max(attach.Oldest, detach.Oldest), attach.Stuck+detach.Stuck
	detail := fmt.Sprintf("%d pods are being attached, %d detached", attach.Length, detach.Length)
	if attach.Length+detach.Length > 0 {
		detail += fmt.Sprintf(", the oldest for %s; %d are stuck", rounded(oldest), stuck)
	}
	return Check{"queue", stuck == 0, detail}
}

// timestamp formats a time for messages.
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// rounded formats a duration for messages.
func rounded(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }

package driver

import (
	"fmt"
	"time"

	"github.com/nadra-dev/nadra/internal/metrics"
)

const (
	// endTime is how long an operation on a pod may take to end after its limit.
	endTime = 35 * time.Second
	// silentAfter is longer than any healthy loop stays silent. The longest turn
	// is a sweep's of one pod.
	silentAfter = 5 * time.Minute
)

// Check is one thing that health is made of.
type Check struct {
	Name string
	// OK says that it is as it should be, and Detail, in either case, how it is.
	OK     bool
	Detail string
}

// Live checks that the driver's loops turn. It takes their locks: one that is
// never given back keeps the answer from coming, which is an answer, too.
func (d *Driver) Live() []Check {
	now := time.Now()
	d.queues(now)
	d.store.PendingDELs()
	var out []Check
	for _, loop := range []struct {
		name string
		*pulse
	}{{partNetworks, &d.publisher.pulse}, {partHardware, &d.machines.pulse}, {"sweep", &d.sweeper.pulse}} {
		if silence, began := loop.silence(now); began {
			out = append(out, turns(loop.name, silence))
		}
	}
	return out
}

func turns(loop string, silence time.Duration) Check {
	return Check{loop, silence < silentAfter, fmt.Sprintf("last turn %s ago, at most %s", inWords(silence), silentAfter)}
}

// Ready checks that pods with networks can start on this node.
func (d *Driver) Ready() []Check {
	now := time.Now()
	r := readiness{now: now, begun: d.begun, read: d.read.Load(), ours: d.owner.mine(), queues: d.queues(now)}
	r.kubelet = d.waker.latest.Load()
	r.nri.up, r.nri.since, _, r.nri.why = d.runtime.look()
	r.slices.since, r.slices.why = d.slices.look(d.begun)
	return r.checks()
}

// queues are what the driver has under way.
func (d *Driver) queues(now time.Time) map[string]metrics.Queue {
	attaches, _ := d.jobs.look(now)
	return map[string]metrics.Queue{
		queueAttach: attaches, queueDetach: d.detaches.look(now),
		queueNetworkStatus: d.networkStatus.Queue(now), queueClaimStatus: d.claimStatus.Queue(now),
	}
}

// The queues. Containers wait for the first and the third; nobody for the last.
const (
	queueAttach        = "attach"
	queueDetach        = "detach"
	queueNetworkStatus = "network-status"
	queueClaimStatus   = "claim-status"
)

// readiness is what it is decided by whether the driver is ready.
type readiness struct {
	now, begun time.Time
	// read says that the NADs were.
	read bool
	// ours says that the node's networks are nadra's.
	ours bool
	// kubelet is what the kubelet has said last; nil while it has not.
	kubelet *registration
	nri     struct {
		up    bool
		since time.Time // zero before the first connection
		why   error
	}
	slices trouble
	queues map[string]metrics.Queue
}

func (r *readiness) checks() []Check {
	all := []Check{r.registered(), r.connected(), r.published(), r.moving()}
	for i := range all {
		if !r.read && !all[i].OK {
			all[i].Detail = "not yet: the NetworkAttachmentDefinitions are being read since " + at(r.begun) + ", which comes first"
		}
	}
	return all
}

func (r *readiness) registered() Check {
	const name = "kubelet"
	switch {
	case r.kubelet == nil:
		return Check{name, false, "not registered since " + at(r.begun) + ": the kubelet has not answered to the socket in its plugin registration directory"}
	case r.kubelet.refused != "":
		return Check{name, false, "refused by the kubelet at " + at(r.kubelet.at) + ": " + r.kubelet.refused}
	}
	return Check{name, true, "registered since " + at(r.kubelet.at)}
}

func (r *readiness) connected() Check {
	const name = "nri"
	if r.nri.up {
		return Check{name, true, "connected and synchronised since " + at(r.nri.since)}
	}
	since, says := r.nri.since, ""
	if since.IsZero() {
		since, says = r.begun, "; is NRI enabled in the runtime's configuration?"
	}
	if r.nri.why != nil {
		says = ": " + r.nri.why.Error() + says
	}
	return Check{name, false, "not connected since " + at(since) + says}
}

// published is no matter of a node that has nothing to publish: it is ready to
// be given to nadra.
func (r *readiness) published() Check {
	const name = "slices"
	switch {
	case !r.ours:
		return Check{name, true, "nothing to publish: the node's networks are not nadra's"}
	case r.slices.why != nil:
		return Check{name, false, "not published since " + at(r.slices.since) + ": " + r.slices.why.Error()}
	}
	return Check{name, true, "published"}
}

func (r *readiness) moving() Check {
	attach, detach := r.queues[queueAttach], r.queues[queueDetach]
	oldest, stuck := max(attach.Oldest, detach.Oldest), attach.Stuck+detach.Stuck
	says := fmt.Sprintf("%d pods are being attached, %d detached", attach.Length, detach.Length)
	if attach.Length+detach.Length > 0 {
		says += fmt.Sprintf(", the oldest for %s; %d are stuck", inWords(oldest), stuck)
	}
	return Check{"queue", stuck == 0, says}
}

// at is a moment as it is told.
func at(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// inWords is a duration as it is told.
func inWords(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }

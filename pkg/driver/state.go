package driver

import (
	"strings"
	"time"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// States of devices, in metrics.
const (
	deviceOffered = "offered"
	// deviceUnusable is a network that the node cannot attach.
	deviceUnusable = "unusable"
	// deviceUnwell is a network whose plugins answer STATUS with an error.
	deviceUnwell = metrics.DeviceUnhealthy
	// deviceNotOurs could be offered, was the node nadra's.
	deviceNotOurs = "not_owned"
	// deviceWithheld is a function that a device plugin has given away.
	deviceWithheld = "withheld"
	// deviceNoLink is a function whose link is down.
	deviceNoLink = "link_down"
)

// Kinds of orphans, in metrics.
const (
	orphanPendingDEL = "pending_del"
	orphanSandbox    = "sandbox"
	orphanClaim      = "claim"
	orphanCache      = "cache"
	orphanDamaged    = "damaged"
)

// state is how things are, for a scrape. It asks nobody else.
func (d *Driver) state() metrics.State {
	now := time.Now()
	s := metrics.State{
		Owned: d.owner.mine(), Queues: d.queues(now), Ready: map[string]bool{},
		Attachments: phasesOf(d.store.All()), Devices: map[metrics.Device]int{}, Orphans: d.orphans(),
	}
	_, s.Blocked = d.jobs.look(now)
	s.Connected, _, s.RequestTimeout, _ = d.runtime.look()
	if r := d.waker.latest.Load(); r != nil {
		s.Registered = r.refused == ""
	}
	if since, why := d.slices.look(d.begun); s.Owned && why != nil {
		s.Unpublished = now.Sub(since)
	}
	for _, c := range d.Ready() {
		s.Ready[c.Name] = c.OK
	}
	d.publisher.count(s.Owned, s.Devices)
	d.hardware.count(d.cfg.NodeName, s.Owned, s.Devices)
	s.Writes, s.Waited = d.store.Writes()
	return s
}

// phasesOf counts attachments by phase.
func phasesOf(records []checkpoint.Record) map[string]int {
	out := map[string]int{string(checkpoint.Prepared): 0, string(checkpoint.Attaching): 0, string(checkpoint.Attached): 0}
	for _, r := range records {
		if !r.DeviceOnly {
			out[string(r.Phase)]++
		}
	}
	return out
}

// orphans counts what pods that are gone have left. Most of it is as the last
// sweep has found it.
func (d *Driver) orphans() map[string]int {
	left := leftovers{damaged: len(d.damaged)}
	if l := d.sweeper.left.Load(); l != nil {
		left = *l
	}
	return map[string]int{
		orphanPendingDEL: len(d.store.PendingDELs()), orphanSandbox: left.sandboxes,
		orphanClaim: left.claims, orphanCache: left.cached, orphanDamaged: left.damaged,
	}
}

// count adds the networks of NADs that need no device of a pool.
func (p *publisher) count(ours bool, to map[metrics.Device]int) {
	of := func(state string) metrics.Device { return metrics.Device{Pool: partNetworks, State: state} }
	for _, state := range []string{deviceOffered, deviceUnusable, deviceUnwell, deviceNotOurs} {
		to[of(state)] = 0
	}
	unwell := p.health.unwell()
	p.networks.mu.RLock()
	defer p.networks.mu.RUnlock()
	for ref, c := range p.networks.byRef {
		switch {
		case c.network.ResourceName != "":
		case c.unusable != nil:
			to[of(deviceUnusable)]++
		case !ours:
			to[of(deviceNotOurs)]++
		case unwell[ref]:
			to[of(deviceUnwell)]++
		default:
			to[of(deviceOffered)]++
		}
	}
}

// unwell are the networks that are withdrawn as their plugins are not well.
func (h *health) unwell() map[attachment.NetworkRef]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[attachment.NetworkRef]bool{}
	for ref, away := range h.away {
		if away {
			out[ref] = true
		}
	}
	return out
}

// count adds the functions of resource pools, under the last part of the names of
// their DRA pools: the first is the node's.
func (h *hardware) count(node string, ours bool, to map[metrics.Device]int) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for key, d := range h.devices {
		if d.Gone || key.name != d.Name { // one of the copies of a shared device
			continue
		}
		pool := strings.TrimPrefix(d.DRAPool, node+"/")
		for _, state := range []string{deviceOffered, deviceWithheld, deviceNoLink, deviceNotOurs} {
			to[metrics.Device{Pool: pool, State: state}] += 0
		}
		state := deviceOffered
		switch {
		case d.Withheld != "":
			state = deviceWithheld
		case !ours:
			state = deviceNotOurs
		case !d.shared() && linkDown(d.function()) != "":
			state = deviceNoLink
		}
		to[metrics.Device{Pool: pool, State: state}]++
	}
}

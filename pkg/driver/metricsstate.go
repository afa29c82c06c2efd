package driver

import (
	"cmp"
	"maps"
	"time"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// Kinds of orphans, in metrics.
const (
	orphanPendingDEL = "pending_del"
	orphanSandbox    = "sandbox"
	orphanClaim      = "claim"
	orphanCache      = "cache"
	orphanDamaged    = "damaged"
)

// metricsState returns the driver's state for a scrape. It sends no request.
func (d *Driver) metricsState() metrics.State {
	now := time.Now()
	link := d.runtime.state()
	s := metrics.State{
		Owned: d.owner.owned(), Queues: d.queues(now), Ready: map[string]bool{}, Connected: link.up, RequestTimeout: link.limit,
		Devices: map[metrics.Device]int{}, Orphans: orphans(d.store, d.sweeper.leftovers.Load()),
	}
	s.Attachments, s.Unclaimed = phasesOf(d.store.All())
	s.WithoutRecords = d.sandboxes.countPending()
	s.Lost = d.checker.countLost()
	_, s.Blocked = d.jobs.queue(now)
	if r := d.retrigger.latest.Load(); r != nil {
		s.Registered = r.refused == ""
	}
	if f := d.slices.Failure(d.started); s.Owned && f.Err != nil {
		s.Unpublished = now.Sub(f.Since)
	}
	for _, c := range d.Ready() {
		s.Ready[c.Name] = c.OK
	}
	d.networks.View.Count(s.Devices)
	d.hardware.View.Count(d.cfg.NodeName, s.Owned, s.Devices)
	s.Writes, s.Waited = d.store.Writes()
	return s
}

// phasesOf counts attachments by phase, and those of pods without a claim among them.
func phasesOf(records []checkpoint.Record) (all, unclaimed map[string]int) {
	all = map[string]int{string(checkpoint.Prepared): 0, string(checkpoint.Attaching): 0, string(checkpoint.Attached): 0}
	unclaimed = maps.Clone(all)
	for _, r := range records {
		if r.DeviceOnly {
			continue
		}
		all[string(r.Phase)]++
		if r.Unclaimed() {
			unclaimed[string(r.Phase)]++
		}
	}
	return all, unclaimed
}

// orphans counts what pods that are gone have left. Most of it is from the latest sweep, before which left is nil.
func orphans(store *checkpoint.Store, left *leftovers) map[string]int {
	left = cmp.Or(left, &leftovers{})
	return map[string]int{
		orphanPendingDEL: len(store.PendingDELs()), orphanSandbox: left.sandboxes,
		orphanClaim: left.claims, orphanCache: left.cached, orphanDamaged: left.damaged,
	}
}

package driver

import (
	"context"
	"slices"
	"time"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"
)

const (
	// healthEvery is how often the health of devices is looked at, all of it in
	// memory. Much of what it is made from has no way to tell of a change.
	healthEvery = 2 * time.Second
	// healthAgain is how often it is told although nothing has changed: what is
	// older than 30 s the kubelet takes for unknown.
	healthAgain = 10 * time.Second
)

// WatchHealthStatus tells the kubelet of the health of the devices that claims
// have (KEP-4680): at once, after every change, and again while nothing changes.
func (p plugin) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	var told []kubeletplugin.DeviceHealth
	var last time.Time
	for {
		now := time.Now()
		if devices := healthOf(p.d.store.All(), p.d.healthFacts(now)); now.Sub(last) >= healthAgain || !slices.Equal(devices, told) {
			select {
			case reports <- kubeletplugin.DeviceHealthReport{Devices: dated(devices, now)}:
			case <-ctx.Done():
				return nil
			}
			told, last = devices, now
		}
		select {
		case <-tick.C:
		case <-p.d.prepared:
		case <-ctx.Done():
			return nil
		}
	}
}

// lookAtHealth has the kubelet told of devices that claims have since now: it
// then has their health when it first writes the pod's status, and need not write
// it again. When two streams are open the one that is about to end may take this
// from the other, which then looks at its next turn.
func (d *Driver) lookAtHealth() {
	select {
	case d.prepared <- struct{}{}:
	default:
	}
}

// dated are the same devices, with when that was found.
func dated(devices []kubeletplugin.DeviceHealth, at time.Time) []kubeletplugin.DeviceHealth {
	out := slices.Clone(devices)
	for i := range out {
		out[i].LastUpdated = at
	}
	return out
}

func (d *Driver) healthFacts(now time.Time) healthFacts {
	up, since, _, _ := d.runtime.look()
	return healthFacts{
		network: d.networks.find, status: d.publisher.health.answer, hardware: d.hardware.lookup, check: d.checks.found,
		runtime: runtimeAway(up, since, d.begun, now),
	}
}

package driver

import (
	"context"
	"slices"
	"time"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/hwdevices"
	"github.com/nadra-dev/nadra/pkg/driver/internal/publish"
)

const (
	// healthEvery is the pause between two checks of the devices' health, which is in memory.
	// Most of it has no event that announces a change.
	healthEvery = 2 * time.Second
	// healthAgain is the pause after which an unchanged health is reported again: the kubelet
	// takes what is older than 30 s for unknown.
	healthAgain = 10 * time.Second
)

// deviceHealth reports the health of the devices that claims have to the kubelet.
type deviceHealth struct {
	store    *checkpoint.Store
	networks *publish.View
	devices  *hwdevices.View
	checker  *checker
	runtime  *runtimeLink
	started  time.Time
	// prepared is set when claims were prepared. The kubelet then has their devices' health
	// when it first writes the pod's status, and need not write it again. If two streams are
	// open, the one that is about to end may take the signal from the other, which then
	// reports at its next turn.
	prepared background.Trigger
}

// watch reports at once, after every change, and again while nothing changes, until ctx ends.
func (h *deviceHealth) watch(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	var reported []kubeletplugin.DeviceHealth
	var last time.Time
	for {
		now := time.Now()
		if devices := healthOf(h.store.All(), h.facts(now)); now.Sub(last) >= healthAgain || !slices.Equal(devices, reported) {
			select {
			case reports <- kubeletplugin.DeviceHealthReport{Devices: dated(devices, now)}:
			case <-ctx.Done():
				return nil
			}
			reported, last = devices, now
		}
		select {
		case <-tick.C:
		case <-h.prepared.C():
		case <-ctx.Done():
			return nil
		}
	}
}

// facts returns what decides the health now.
func (h *deviceHealth) facts(now time.Time) healthFacts {
	return healthFacts{
		withheld: h.networks.Withheld, device: h.devices.Lookup, check: h.checker.latest,
		runtimeLost: runtimeLost(h.runtime.state(), h.started, now),
	}
}

// dated returns the same devices with a time.
func dated(devices []kubeletplugin.DeviceHealth, at time.Time) []kubeletplugin.DeviceHealth {
	out := slices.Clone(devices)
	for i := range out {
		out[i].LastUpdated = at
	}
	return out
}

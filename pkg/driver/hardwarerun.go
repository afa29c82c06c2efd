package driver

import (
	"context"
	"path/filepath"

	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/inventory"
)

// Parts of what is published; see sliceParts.
const (
	partNetworks = "networks"
	partHardware = "hardware"
)

// newHardware prepares what publishes the devices of resource pools.
func (d *Driver) newHardware() error {
	h := d.cfg.Hardware
	reader := inventory.Reader{Sys: h.SysRoot, Dev: filepath.Join(d.cfg.HostRoot, "dev"), Kernel: inventory.HostKernel()}
	d.machines = &hardwarePublisher{
		node: d.cfg.NodeName,
		view: &d.hardware,
		read: reader.Read,
		used: func(ctx context.Context) (map[string]string, error) { return usedByPlugins(ctx, h.PodResources) },
		mine: d.owner.mine,
		publish: func(ctx context.Context, made map[string]resourceslice.Pool) error {
			return d.parts.publish(ctx, partHardware, func() map[string]resourceslice.Pool { return made })
		},
		tell:    d.reportPool,
		changed: make(chan struct{}, 1),
		options: hardwareOptions{driver: d.cfg.DriverName, copies: d.cfg.Copies},
	}
	var err error
	d.sources, err = newPoolSources(d.clients, d.cfg.NodeName, h, d.machines.poke)
	d.machines.pools = d.sources.list
	return err
}

// beginHardware reads the pools and the hardware for the first time. The first
// publication, of the networks, then has the devices as well: the slices that the
// driver before has left would else be deleted, and made anew.
func (d *Driver) beginHardware(ctx context.Context, start func(func() error)) {
	if d.cfg.Hardware.none() {
		return
	}
	d.sources.begin(ctx, start)
	made, err := d.machines.refresh(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Reading the hardware failed; trying again", "in", hardwareRecheck)
		return
	}
	d.parts.put(partHardware, func() map[string]resourceslice.Pool { return made })
}

// runHardware publishes hardware and follows its changes until ctx ends.
func (d *Driver) runHardware(ctx context.Context) error {
	if d.cfg.Hardware.none() {
		return nil
	}
	following := make(chan struct{})
	go func() {
		defer close(following)
		d.followHardware(ctx)
	}()
	err := d.machines.run(ctx)
	<-following
	return err
}

// followHardware renews a watch that was lost, and looks for what it missed.
func (d *Driver) followHardware(ctx context.Context) {
	reader := inventory.Reader{Sys: d.cfg.Hardware.SysRoot}
	changed := func() {
		d.machines.poke()
		d.retrier.HardwareChanged()
	}
	for ctx.Err() == nil {
		if err := reader.Watch(ctx, changed); err != nil {
			klog.FromContext(ctx).Error(err, "Watching the hardware failed; going on by looking", "again", hardwareRecheck)
		}
		if !sleep(ctx, hardwareRecheck) {
			return
		}
		d.machines.poke()
	}
}

// dropped is told which features the API server does without, of the slices of
// all pools. It reports whether publishing differently helps, and starts that.
func (d *Driver) dropped(features []string) bool {
	networks, hardware := d.publisher.dropped(features), d.machines.dropped(features)
	return networks || hardware
}

package driver

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
	"github.com/nadra-dev/nadra/pkg/driver/internal/succession"
)

// begin does what a driver does first when it has the state directory.
func (d *Driver) begin(ctx context.Context, start func(func() error)) error {
	damaged, err := d.store.Load()
	if err != nil {
		return fmt.Errorf("opening the state in %s: %w", d.cfg.StateDir, err)
	}
	d.sweeper.leftovers.Store(&leftovers{damaged: len(damaged)})
	for _, file := range damaged {
		d.report.stateDamaged(ctx, file)
	}
	// Once the driver is registered, the kubelet starts containers of claims that were prepared
	// before a reboot without another call.
	if err := d.cdi.Install(d.store.All()); err != nil {
		return err
	}
	if err := d.removeStaleSockets(); err != nil {
		klog.FromContext(ctx).Error(err, "The kubelet may dial a socket of an earlier driver first, for 10 s")
	}
	if err := d.watchPods(); err != nil {
		return err
	}
	start(func() error {
		err := succession.Serve(ctx, d.cfg.StateDir, d.successor.self, d.answerSuccessor)
		if err != nil {
			klog.FromContext(ctx).Error(err, "The next driver cannot ask this one to hand over, and waits until it ends")
		}
		return nil
	})
	if d.cfg.Serving != nil {
		start(func() error { return d.cfg.Serving(ctx) })
	}
	return nil
}

// tryBegin returns the error with which begin would fail, as far as that can be found out while another driver
// has the state directory.
func (d *Driver) tryBegin() error {
	if err := d.store.Try(); err != nil {
		return fmt.Errorf("opening the state in %s: %w", d.cfg.StateDir, err)
	}
	if err := d.cdi.Try(); err != nil {
		return err
	}
	return d.makeSocketDirs()
}

// succeed takes the place of the driver that has the state directory. The kubelet and the runtime
// are connected before that, if the driver can be asked: the kubelet's calls wait, and the
// runtime runs nothing while it synchronises this driver (hooks.Synchronize).
func (d *Driver) succeed(ctx context.Context, start func(func() error)) (helper *kubeletplugin.Helper, err error) {
	// First, because the kubelet calls a driver as soon as that is registered, and because the rollout ends the
	// other driver as soon as this one is ready.
	if err := d.successor.rehearse(); err != nil {
		return nil, err
	}
	asks, err := d.successor.canAsk(ctx)
	if err != nil {
		return nil, err
	}
	if asks {
		if helper, err = d.startKubeletPlugin(ctx); err != nil {
			return nil, err
		}
		d.retrigger.awaitRegistration(ctx)
		start(func() error { return d.nri.run(ctx) })
		go d.successor.late(ctx)
	}
	klog.FromContext(ctx).Info("Another driver uses the state directory", "dir", d.cfg.StateDir, "reason", d.successor.waiting.Load().reason)
	if err := d.successor.await(ctx); err != nil {
		return helper, err
	}
	if !asks {
		d.cache.collectGarbage(ctx)
		helper, err = d.startKubeletPlugin(ctx)
	}
	return helper, err
}

// load reads what the answers to the kubelet and to the runtime depend on, besides the state. It
// returns the first devices of hardware, or nil.
func (d *Driver) load(ctx context.Context, start func(func() error)) (slicewriter.PoolMaker, error) {
	var reads errgroup.Group
	reads.Go(func() error {
		err := d.nads.Start(ctx, d.networks.NADsChanged)
		d.nadsRead.Store(err == nil)
		return err
	})
	reads.Go(func() error { return d.owner.start(ctx, start, d.ownerChanged) })
	reads.Go(func() error { d.policies.wait(ctx); return nil })
	reads.Go(func() error { return d.otherDrivers.Start(ctx, start, d.networks.Trigger) })
	reads.Go(func() error { d.nodePods.Start(ctx, start, d.networks.Trigger); return nil })
	reads.Go(func() error { d.features.start(ctx); return nil })
	start(func() error { return d.links.Watch(ctx, d.networks.Trigger, d.checker.linkGone) })
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	if d.successor.has() {
		d.cache.collectGarbage(ctx)
	}
	if err := d.networks.Refresh(ctx); err != nil {
		return nil, err
	}
	return d.readHardware(ctx, start)
}

// readHardware reads the pools and the hardware for the first time. The first publication,
// of the networks, then has these devices, too: otherwise the slices that the driver before
// has left would be deleted, and created again. It returns nil if there are no pools, or if
// the hardware cannot be read.
func (d *Driver) readHardware(ctx context.Context, start func(func() error)) (slicewriter.PoolMaker, error) {
	if d.cfg.Hardware.None() {
		return nil, nil
	}
	if err := d.poolSources.Start(ctx, start, d.hardware.Trigger); err != nil {
		return nil, err
	}
	made, err := d.hardware.Refresh(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Reading the hardware failed; trying again")
		return nil, nil
	}
	return func() map[string]resourceslice.Pool { return made }, nil
}

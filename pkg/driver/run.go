package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/hwdevices"
	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
	"github.com/nadra-dev/nadra/pkg/driver/internal/succession"
)

// drainTime is the time that attaches and detaches have to end when the driver stops.
const drainTime = 5 * time.Second

// Run serves until ctx ends, or returns the error that has ended it: ErrHandedOver if another
// driver has taken its place. Running operations then have some time to end: first the plugins,
// then the writes of status. The state directory is free when Run returns.
func (d *Driver) Run(ctx context.Context) error {
	d.events.Start(d.clients.Kube)
	defer d.events.Shutdown()
	defer d.successor.release()
	writing, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	var status sync.WaitGroup
	status.Go(func() { d.networkStatus.Run(writing, d.jobs.attachAgain) })
	status.Go(func() { d.claimStatus.Run(writing) })

	err := d.serve(ctx)
	drain := d.drain
	if errors.Is(err, ErrHandedOver) {
		drain = min(drain, handOverDrain)
	}
	timer := time.AfterFunc(drain, func() { d.operations.Cancel(errDriverStop) })
	d.operations.Wait()
	timer.Stop()
	d.operations.Cancel(errDriverStop)
	stopWriting()
	status.Wait()
	d.store.WaitSynced() // the writers of status are the last to write to it
	return err
}

// serve gets the state directory, and answers the kubelet and the runtime until ctx ends. If
// another driver has the directory, it first reads everything else, and tries what it will do: whoever asks
// for the directory can serve.
func (d *Driver) serve(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	defer d.background.Wait()
	defer d.background.Cancel(nil)
	stop := context.AfterFunc(ctx, func() { d.background.Cancel(context.Cause(ctx)) })
	defer stop()
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.failed:
			return err
		}
	})
	begin := func(ctx context.Context) error { return d.begin(ctx, g.Go) }
	alone, err := d.successor.try(ctx, begin)
	if err != nil {
		return err
	}
	var helper *kubeletplugin.Helper
	defer func() { helper.Stop() }()
	if alone {
		if helper, err = d.startKubeletPlugin(ctx); err != nil {
			return err
		}
	}
	g.Go(func() error { d.watch.informer.RunWithContext(ctx); return nil })
	g.Go(func() error { return d.policies.run(ctx, d.unclaimed.reconsider) })
	hardware, err := d.load(ctx, g.Go)
	if err != nil {
		return err
	}
	if !alone {
		if helper, err = d.succeed(ctx, g.Go, begin); err != nil {
			return err
		}
		if len(d.cfg.CNIImages) > 0 { // their plugins are there only now
			if err := d.networks.Refresh(ctx); err != nil {
				return err
			}
		}
	}
	if d.cfg.DeviceMetadata {
		d.metadata.Store(helper)
	}
	close(d.loaded)
	writer := slicewriter.New(helper.PublishResources, d.slices)
	if hardware != nil {
		writer.Put(slicewriter.Hardware, hardware)
	}
	d.start(ctx, g.Go, writer)
	return g.Wait()
}

// begin does what a driver does first when it has the state directory.
func (d *Driver) begin(ctx context.Context, start func(func() error)) error {
	damaged, err := d.store.Load()
	if err != nil {
		return fmt.Errorf("opening the state in %s: %w", d.cfg.StateDir, err)
	}
	if err := d.useImages(); err != nil {
		return err
	}
	d.jobs.prove(d.store.All(), true) // the networks of pods that are attached work
	d.sweeper.leftovers.Store(&leftovers{damaged: len(damaged)})
	for _, file := range damaged {
		d.report.stateDamaged(ctx, file)
	}
	// Once the driver is registered, the kubelet starts containers in sandboxes of this boot without another call. After a
	// reboot it prepares all claims again, and their device files may have other numbers.
	prepared := checkpoint.Where(d.store.All(), func(r checkpoint.Record) bool {
		return r.Hardware == nil || r.Hardware.BootID == "" || r.Hardware.BootID == d.store.BootID()
	})
	if err := d.cdi.Install(prepared); err != nil {
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

// watchPods handles changes of pods from now on, and first all pods.
func (d *Driver) watchPods() error {
	return d.watch.onChange(func(before, now *metav1.PartialObjectMetadata) {
		if now == nil {
			d.jobs.podDeleted(podRefOf(before))
			return
		}
		if now.DeletionTimestamp != nil {
			d.jobs.podDeleted(podRefOf(now))
		}
		if before != nil {
			d.checker.podUpdated(before, now)
		}
		d.edits.podChanged(before, now)
	})
}

// tryBegin returns the error with which begin would fail, as far as that can be found out while another driver
// has the state directory.
func (n *node) tryBegin() error {
	if err := n.store.Try(); err != nil {
		return fmt.Errorf("opening the state in %s: %w", n.cfg.StateDir, err)
	}
	if err := n.cdi.Try(); err != nil {
		return err
	}
	return n.makeSocketDirs()
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
	reads.Go(func() error { return d.owner.start(ctx, start, d.ownerChanged, d.networks.NodeSeen) })
	reads.Go(func() error { d.policies.wait(ctx); return nil })
	reads.Go(func() error { return d.otherDrivers.Start(ctx, start, d.networks.Trigger) })
	reads.Go(func() error { d.nodePods.Start(ctx, start, d.networks.Trigger); return nil })
	reads.Go(func() error { d.features.start(ctx); return nil })
	start(func() error { return d.links.Watch(ctx, d.networks.Trigger, d.checker.linkGone) })
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	if d.successor.has() {
		d.sweeper.collectGarbage(ctx)
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

// succeed takes the place of the driver that has the state directory. The kubelet and the runtime
// are connected before that, if the driver can be asked: the kubelet's calls wait, and the
// runtime runs nothing while it synchronises this driver (hooks.Synchronize).
func (d *Driver) succeed(ctx context.Context, start func(func() error), begin func(context.Context) error) (helper *kubeletplugin.Helper, err error) {
	// First, because the kubelet calls a driver as soon as that is registered, and because the rollout ends the
	// other driver as soon as this one is ready.
	if err := d.successor.rehearse(); err != nil {
		return nil, err
	}
	asks, err := d.successor.canAsk(ctx, begin)
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
	if err := d.successor.await(ctx, begin); err != nil {
		return helper, err
	}
	if !asks {
		d.sweeper.collectGarbage(ctx)
		helper, err = d.startKubeletPlugin(ctx)
	}
	return helper, err
}

// start starts what runs while the driver serves.
func (d *Driver) start(ctx context.Context, start func(func() error), writer *slicewriter.Writer) {
	start(func() error { return d.networks.CountNodes(ctx, d.clients.Metadata) })
	start(func() error { return d.networks.Run(ctx, writer.Part(slicewriter.Networks)) })
	if !d.cfg.Hardware.None() {
		start(func() error { return d.hardware.Run(ctx, writer.Part(slicewriter.Hardware)) })
		start(func() error {
			return hwdevices.Watch(ctx, d.cfg.Hardware.SysRoot, func() {
				d.hardware.Trigger()
				d.attacher.PendingDELs.Hasten(func(r checkpoint.Record) bool { return r.Hardware != nil }) // a DEL may have failed because a device was missing
			}, d.hardware.Trigger)
		})
	}
	start(func() error { return d.features.run(ctx) })
	start(func() error { return d.slices.Run(ctx, listSlices(d.clients.Kube, d.cfg.NodeName)) })
	start(func() error { return d.retrigger.run(ctx) })
	if !d.nri.begun.Load() {
		start(func() error { return d.nri.run(ctx) })
	}
	start(func() error { return d.edits.run(ctx) })
	start(func() error { return d.sweeper.run(ctx) })
	start(func() error { return d.adopter.run(ctx) })
	start(func() error { return d.attacher.PendingDELs.Run(ctx) })
}

// ownerChanged publishes again after the node's owner has changed. report is false for what
// a driver finds when it is started.
func (d *Driver) ownerChanged(ctx context.Context, owned, report bool) {
	d.networks.Trigger()
	d.hardware.Trigger()
	d.adopter.requests.Set()
	d.unclaimed.reconsider()
	if report {
		d.report.ownerChanged(ctx, d.owner.Ownership, owned)
	}
}

// listSlices returns a function that lists the driver's slices of a node.
func listSlices(kube kubernetes.Interface, node string) func(context.Context) ([]resourceapi.ResourceSlice, error) {
	return func(ctx context.Context) ([]resourceapi.ResourceSlice, error) {
		list, err := kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
			resourceapi.ResourceSliceSelectorDriver: v1alpha1.DriverName, resourceapi.ResourceSliceSelectorNodeName: node,
		}.String()})
		if err != nil {
			return nil, fmt.Errorf("listing the ResourceSlices of this node: %w", err)
		}
		return list.Items, nil
	}
}

package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/cdi"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/hwdevices"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
	"github.com/nadra-dev/nadra/pkg/driver/internal/publish"
	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
)

// drainTime is the time that attaches and detaches have to end when the driver stops.
const drainTime = 5 * time.Second

// Driver is the node driver. Make it with New, then Run it once. It wires the parts, which do
// the work.
type Driver struct {
	*environment
	cfg     Config
	clients Clients
	metrics *metrics.Node
	started time.Time
	drain   time.Duration // drainTime, shorter in tests
	// nadsRead is true once the NADs were read.
	nadsRead atomic.Bool
	// loaded is closed when everything was read that answers depend on.
	loaded chan struct{}
	failed chan error // of capacity 1: why Run must end

	// operations has all work that changes attachments, which has some time to end when the
	// driver stops. background has work that ends at once.
	operations *operations.Group
	background *background.Group

	attacher      *attach.Attacher
	cdi           *cdi.Writer
	networks      *publish.Publisher
	nodePods      *publish.NodePods
	otherDrivers  *publish.OtherDrivers
	hardware      *hwdevices.Publisher
	poolSources   *hwdevices.PoolSources
	slices        *slicewriter.Tracker
	features      *sliceFeatures
	networkStatus *networkstatus.Writer
	claimStatus   *claimstatus.Writer
	owner         *owner
	policies      *namespacePolicies
	watch         *podWatch
	runtime       *runtimeLink
	report        *reporter
	metadata      *metadataFiles
	jobs          *attachJobs
	edits         *podEdits
	detacher      *detacher
	unpreparer    *unpreparer
	cache         *cniCacheCleaner
	sweeper       *sweeper
	sweeps        background.Trigger // requests sweeps
	unclaimed     *unclaimedPods
	preparer      *preparer
	checker       *checker
	adopter       *adopter
	health        *deviceHealth
	retrigger     *podRetrigger
	plugin        plugin
	hookParts     hookParts
	nri           *nriClient
	calls         kubeletCalls
	successor     *successor
}

// New returns a driver. It starts nothing, sends no request, and reads nothing of the state.
func New(ctx context.Context, cfg Config, clients Clients) (*Driver, error) {
	env, err := openEnvironment(ctx, cfg, clients)
	if err != nil {
		return nil, err
	}
	return wire(ctx, cfg, clients, env)
}

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
	d.successor.begin = func(ctx context.Context) error { return d.begin(ctx, g.Go) }
	d.successor.tryBegin, d.successor.fail = d.tryBegin, d.fail
	alone, err := d.successor.try(ctx)
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
	g.Go(func() error { d.policies.run(ctx); return nil })
	hardware, err := d.load(ctx, g.Go)
	if err != nil {
		return err
	}
	if !alone {
		if helper, err = d.succeed(ctx, g.Go); err != nil {
			return err
		}
	}
	d.metadata.start(helper)
	close(d.loaded)
	writer := slicewriter.New(helper.PublishResources, d.slices)
	if hardware != nil {
		writer.Put(slicewriter.Hardware, hardware)
	}
	d.start(ctx, g.Go, writer)
	return g.Wait()
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
	start(func() error { return d.slices.Run(ctx, listSlices(d.clients.Kube, d.cfg.DriverName, d.cfg.NodeName)) })
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
	d.adopter.trigger()
	d.unclaimed.reconsider()
	if report {
		d.report.ownerChanged(ctx, d.owner.Ownership, owned)
	}
}

// listSlices returns a function that lists the driver's slices of a node.
func listSlices(kube kubernetes.Interface, driver, node string) func(context.Context) ([]resourceapi.ResourceSlice, error) {
	return func(ctx context.Context) ([]resourceapi.ResourceSlice, error) {
		list, err := kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
			resourceapi.ResourceSliceSelectorDriver: driver, resourceapi.ResourceSliceSelectorNodeName: node,
		}.String()})
		if err != nil {
			return nil, fmt.Errorf("listing the ResourceSlices of this node: %w", err)
		}
		return list.Items, nil
	}
}

// fail makes Run return err.
func (d *Driver) fail(err error) {
	select {
	case d.failed <- err:
	default: // it ends already
	}
}

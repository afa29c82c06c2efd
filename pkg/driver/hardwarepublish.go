package driver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/driver/internal/events"
	"github.com/nadra-dev/nadra/pkg/driver/internal/truncate"
	"github.com/nadra-dev/nadra/pkg/inventory"
	"github.com/nadra-dev/nadra/pkg/pools"
)

const (
	// hardwareRecheck is how often what nothing announces is looked at: which
	// functions device plugins have given away.
	hardwareRecheck = 15 * time.Second
	// featureDeviceTaints is the gate behind taints (KEP-5055).
	featureDeviceTaints = "DRADeviceTaints"
)

// hardwarePublisher keeps the DRA pools of hardware in step with what the host
// has and with the resource pools that are defined.
type hardwarePublisher struct {
	node string
	view *hardware
	// pools are those that are defined for this node, with an error for what is
	// not understood.
	pools func() ([]pools.Pool, []error)
	// read is the inventory of the host.
	read func() (inventory.Inventory, error)
	// used are the functions that device plugins have given to pods, by ID.
	used func(context.Context) (map[string]string, error)
	// mine says whether the node's devices are ours to offer.
	mine    func() bool
	publish func(context.Context, map[string]resourceslice.Pool) error
	// tell hears of every problem once, and with false when it is over.
	tell    func(ctx context.Context, problem string, is bool)
	changed chan struct{} // of capacity 1: something may have changed

	mu       sync.Mutex
	options  hardwareOptions
	problems map[string]bool

	// Only run and what it calls touch these.
	published map[string]resourceslice.Pool
	earlier   inventory.Inventory
	lastUsed  map[string]string

	pulse pulse
	// outcome is told what came of every look; nil for nobody.
	outcome func(error)
}

// poke asks for a new look; it never blocks.
func (p *hardwarePublisher) poke() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// run publishes, and again after every change until ctx ends. A host whose
// hardware cannot be read has networks all the same: errors are logged.
func (p *hardwarePublisher) run(ctx context.Context) error {
	ticker := time.NewTicker(hardwareRecheck)
	defer ticker.Stop()
	for {
		if err := p.told(p.sync(ctx)); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Publishing hardware failed; trying again", "in", hardwareRecheck)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-p.changed:
			if !sleep(ctx, settle) {
				return nil
			}
		}
	}
}

// sync refreshes the view and publishes it if it differs.
func (p *hardwarePublisher) sync(ctx context.Context) error {
	made, err := p.refresh(ctx)
	if err != nil {
		return err
	}
	if len(p.published)+len(made) == 0 || equality.Semantic.DeepEqual(p.published, made) {
		return nil
	}
	if err := p.publish(ctx, made); err != nil {
		return fmt.Errorf("publishing %d pools of hardware: %w", len(made), err)
	}
	klog.FromContext(ctx).Info("Published hardware", "pools", len(made), "devices", deviceCount(made))
	p.published = made
	return nil
}

// refresh has Prepare see the hardware as it is now, and returns what is to be
// published.
func (p *hardwarePublisher) refresh(ctx context.Context) (map[string]resourceslice.Pool, error) {
	list, problems := p.pools()
	var devices []hardwareDevice
	if len(list) > 0 { // who has no pools need not pay for reading
		host, err := p.read()
		if err != nil {
			return nil, err
		}
		host.Remember(p.earlier)
		p.earlier = host
		assigned, err := pools.Assign(host, list)
		problems = append(problems, flatten(err)...)
		devices = hardwareDevices(p.node, host, list, assigned)
		withholdUsed(devices, p.inUse(ctx))
	}
	p.report(ctx, problems)
	p.mu.Lock()
	options := p.options
	p.mu.Unlock()
	p.view.set(devices, options.copies)
	if !p.mine() {
		devices = nil
	}
	return hardwareSlices(devices, options), nil
}

// inUse is what device plugins have given away; when the kubelet does not
// answer, as it was before.
func (p *hardwarePublisher) inUse(ctx context.Context) map[string]string {
	used, err := p.used(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The kubelet does not tell which devices are in use; going by what it told before")
		return p.lastUsed
	}
	p.lastUsed = used
	return used
}

// report tells of problems that are new, and of those that are over.
func (p *hardwarePublisher) report(ctx context.Context, problems []error) {
	now := map[string]bool{}
	for _, err := range problems {
		now[err.Error()] = true
	}
	p.mu.Lock()
	before := p.problems
	p.problems = now
	p.mu.Unlock()
	for _, text := range slices.Sorted(maps.Keys(now)) {
		if !before[text] {
			p.tell(ctx, text, true)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(before)) {
		if !now[text] {
			p.tell(ctx, text, false)
		}
	}
}

// dropped is told which features the API server does without. It reports
// whether publishing differently helps, and starts that.
func (p *hardwarePublisher) dropped(features []string) bool {
	capacity, taints := slices.Contains(features, featureConsumableCapacity), slices.Contains(features, featureDeviceTaints)
	p.mu.Lock()
	p.options.exclusive = p.options.exclusive || capacity
	p.options.noTaints = p.options.noTaints || taints
	p.mu.Unlock()
	p.poke()
	return capacity || taints
}

// reportPool tells of a problem with a resource pool on the Node, and in the log.
func (d *Driver) reportPool(ctx context.Context, problem string, is bool) {
	logger := klog.FromContext(ctx)
	if !is {
		logger.Info("A problem with a resource pool is over", "was", problem)
		d.events.Node(corev1.EventTypeNormal, events.ResourcePoolServed, truncate.Text("no longer so: "+problem, events.MaxMessage))
		return
	}
	logger.Info("A resource pool is not served as it is defined", "reason", problem)
	d.events.Node(corev1.EventTypeWarning, events.ResourcePoolRefused, truncate.Text(problem, events.MaxMessage))
}

// flatten is each of the errors that were joined.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // only what is itself a list is taken apart
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, flatten(e)...)
	}
	return out
}

func deviceCount(made map[string]resourceslice.Pool) int {
	n := 0
	for _, pool := range made {
		for _, s := range pool.Slices {
			n += len(s.Devices)
		}
	}
	return n
}

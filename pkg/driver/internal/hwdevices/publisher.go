package hwdevices

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
	"github.com/nadra-dev/nadra/pkg/inventory"
	"github.com/nadra-dev/nadra/pkg/pools"
)

const (
	// debounce is the time for which changes are gathered before the slices are made again.
	debounce = 200 * time.Millisecond
	// recheck is the pause between looks at what no event announces: the functions that
	// device plugins have given to pods.
	recheck = 15 * time.Second
)

// Options has what a Publisher needs. All fields are required.
type Options struct {
	// Node is the node's name.
	Node string
	// Copies is the number of devices for a shared one if the API server knows no shared
	// devices.
	Copies int
	// Pools returns the resource pools that are defined for this node, with an error for
	// each definition that is wrong.
	Pools func() ([]pools.Pool, []error)
	// Read reads the host's hardware.
	Read func() (inventory.Inventory, error)
	// UsedByPlugins returns the pods to which device plugins have given functions, by the
	// functions' IDs.
	UsedByPlugins func(context.Context) (map[string]string, error)
	// Owned reports whether the node's devices are nadra's to offer.
	Owned func() bool
	// ProblemChanged is called once for each problem with a definition, and with false when
	// it is over.
	ProblemChanged func(ctx context.Context, problem string, exists bool)
	// Outcome is called with the result of every attempt to publish.
	Outcome func(error)
}

// Publisher keeps the DRA pools of hardware in step with the host's hardware and with the
// resource pools that are defined.
type Publisher struct {
	Options
	// View has the devices of the latest refresh.
	View *View
	// Heartbeat beats with every turn of Run.
	Heartbeat background.Heartbeat

	changed background.Trigger

	mu       sync.Mutex
	slices   sliceOptions
	problems map[string]bool

	// These are used by Run, and by Refresh before it.
	published map[string]resourceslice.Pool
	earlier   inventory.Inventory
	lastUsed  map[string]string
}

// New returns a Publisher.
func New(o Options) *Publisher {
	return &Publisher{
		Options: o, View: &View{}, changed: background.NewTrigger(),
		slices: sliceOptions{copies: o.Copies},
	}
}

// Trigger requests a refresh. It never blocks.
func (p *Publisher) Trigger() { p.changed.Set() }

// Run publishes, and publishes again after every change, until ctx ends. It logs errors: a
// host whose hardware cannot be read still has networks.
func (p *Publisher) Run(ctx context.Context, publish func(context.Context, slicewriter.PoolMaker) error) error {
	ticker := time.NewTicker(recheck)
	defer ticker.Stop()
	for {
		err := p.sync(ctx, publish)
		p.Heartbeat.Beat()
		p.Outcome(err)
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Publishing hardware failed; trying again", "retryAfter", recheck)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-p.changed.C():
			if !background.Sleep(ctx, debounce) {
				return nil
			}
		}
	}
}

// sync refreshes the view and publishes the devices if they differ from what is published.
func (p *Publisher) sync(ctx context.Context, publish func(context.Context, slicewriter.PoolMaker) error) error {
	made, err := p.Refresh(ctx)
	if err != nil {
		return err
	}
	if len(p.published)+len(made) == 0 || equality.Semantic.DeepEqual(p.published, made) {
		return nil
	}
	if err := publish(ctx, func() map[string]resourceslice.Pool { return made }); err != nil {
		return fmt.Errorf("publishing %d pools of hardware: %w", len(made), err)
	}
	klog.FromContext(ctx).Info("Published hardware", "pools", len(made), "devices", deviceCount(made))
	p.published = made
	return nil
}

// Refresh reads the definitions and the hardware, updates the View, and returns the pools
// that are to be published.
func (p *Publisher) Refresh(ctx context.Context) (map[string]resourceslice.Pool, error) {
	list, problems := p.Pools()
	var devices []Device
	if len(list) > 0 { // without pools nobody needs the hardware
		host, err := p.Read()
		if err != nil {
			return nil, err
		}
		host.Remember(p.earlier)
		p.earlier = host
		assigned, err := pools.Assign(host, list)
		problems = append(problems, flatten(err)...)
		devices = devicesOf(p.Node, host, list, assigned)
		markUsed(devices, p.used(ctx))
	}
	p.reportProblems(ctx, problems)
	p.mu.Lock()
	options := p.slices
	p.mu.Unlock()
	p.View.Set(devices, options.copies)
	if !p.Owned() {
		devices = nil
	}
	return slicesOf(devices, options), nil
}

// used returns what device plugins have given to pods. If the kubelet does not answer, it
// returns the latest answer.
func (p *Publisher) used(ctx context.Context) map[string]string {
	used, err := p.UsedByPlugins(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Listing the devices in use failed; going by the latest list")
		return p.lastUsed
	}
	p.lastUsed = used
	return used
}

// reportProblems reports problems that are new, and those that are over.
func (p *Publisher) reportProblems(ctx context.Context, problems []error) {
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
			p.ProblemChanged(ctx, text, true)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(before)) {
		if !now[text] {
			p.ProblemChanged(ctx, text, false)
		}
	}
}

// UseFeatures makes the publisher use the features that the API server has, and no others.
func (p *Publisher) UseFeatures(features slicewriter.Features) {
	p.mu.Lock()
	p.slices.exclusive, p.slices.noTaints = !features.SharedDevices, !features.Taints
	p.mu.Unlock()
	p.Trigger()
}

// flatten returns each of the errors that were joined.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // only a list itself is flattened
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

package driver

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/cdi"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/hwdevices"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
	"github.com/nadra-dev/nadra/pkg/driver/internal/publish"
)

// Driver is the node driver. Make it with New, then Run it once. It wires the parts, which do
// the work.
type Driver struct {
	*parts
	*publishers
	sweeper   *sweeper
	adopter   *adopter
	plugin    *plugin
	nri       *nriClient
	successor *successor
}

// New returns a driver. It starts nothing, sends no request, and reads nothing of the state.
func New(ctx context.Context, cfg Config, clients Clients) (*Driver, error) {
	env, err := openEnvironment(ctx, cfg, clients)
	if err != nil {
		return nil, err
	}
	return wire(ctx, cfg, clients, env)
}

// wire makes a Driver's parts, each after the parts that it needs.
func wire(ctx context.Context, cfg Config, clients Clients, env *environment) (*Driver, error) {
	n, err := newNode(ctx, cfg, clients, env)
	if err != nil {
		return nil, err
	}
	published, err := newPublishers(n)
	if err != nil {
		return nil, err
	}
	p := newParts(newPods(n, published.networks.View, published.hardware.View))
	successor := newSuccessor(n)
	d := &Driver{
		parts: p, publishers: published, successor: successor,
		sweeper: &sweeper{parts: p},
		adopter: &adopter{pods: p.pods, adoptions: checkpoint.NewAdoptions(n.store), requests: background.NewTrigger()},
		plugin:  &plugin{parts: p, publishers: published, prepared: background.NewTrigger()},
		nri:     &nriClient{parts: p, successor: successor},
	}
	cfg.Metrics.Watch(d.metricsState)
	return d, nil
}

// node is what all parts of a driver share.
type node struct {
	*environment
	cfg     Config
	clients Clients
	started time.Time

	// operations has all work that changes attachments, which has some time to end when the
	// driver stops. background has work that ends at once.
	operations *operations.Group
	background *background.Group

	owner       *owner
	policies    *namespacePolicies
	custody     custody
	runtime     *runtimeLink
	cdi         *cdi.Writer
	claimStatus *claimstatus.Writer
	report      *reporter
	sandboxes   *liveSandboxes
	// sweeps requests sweeps.
	sweeps background.Trigger
	// loaded is closed when everything was read that answers depend on.
	loaded chan struct{}
	failed chan error // of capacity 1: why Run must end
	// metadata writes the files about devices. It is nil without such files, and until the kubelet's helper
	// exists, which is before the first sandbox is attached.
	metadata atomic.Pointer[kubeletplugin.Helper]
}

// newNode returns what the parts of a driver with an environment share.
func newNode(ctx context.Context, cfg Config, clients Clients, env *environment) (*node, error) {
	custody, err := custodyOf(cfg)
	if err != nil {
		return nil, err
	}
	status := claimstatus.NewWriter(clients.Kube, cfg.NodeName)
	return &node{
		environment: env, cfg: cfg, clients: clients, started: time.Now(),
		operations: operations.New(ctx, env.plugins, cfg.limits()), background: background.NewGroup(ctx),
		owner:    newOwner(clients.Metadata, cfg.NodeName, cfg.StateDir, cfg.Ownership, cfg.Profiles),
		policies: newNamespacePolicies(clients.Metadata, cfg.Ownership.Unclaimed), custody: custody, runtime: newRuntimeLink(),
		cdi: cdi.NewWriter(cdi.Options{
			SpecDir: cfg.CDIDir, GateSource: cfg.GateBinary, PluginDir: cfg.pluginDir(), Records: env.store.Dir(), Slow: cfg.limits().Slow,
		}),
		claimStatus: status, report: &reporter{environment: env, cfg: cfg, claimStatus: status}, sandboxes: newLiveSandboxes(),
		sweeps: background.NewTrigger(), loaded: make(chan struct{}), failed: make(chan error, 1),
	}, nil
}

// fail makes Run return err.
func (n *node) fail(err error) {
	select {
	case n.failed <- err:
	default: // it ends already
	}
}

// pods is what those parts share, too, that attach pods to networks and detach them.
type pods struct {
	*node
	planner       *planner
	networkStatus *networkstatus.Writer
	attacher      *attach.Attacher
	// taking is locked while a pod takes devices: two pods could both find one free, and record it.
	taking sync.Mutex
}

// newPods returns what attaches pods to these networks and devices.
func newPods(n *node, networks *publish.View, devices *hwdevices.View) *pods {
	planner := &planner{node: n, networks: networks, devices: devices}
	status := networkstatus.NewWriter(networkstatus.Options{
		Kube: n.clients.NetworkStatus, Manager: v1alpha1.DriverName, DefaultNetwork: n.defaultEntries, Find: n.watch.Find,
		Links: func(s attachment.Sandbox) ([]string, error) {
			ns, err := n.netns.Inspect(s.NetNS)
			return ns.Links, err
		},
		Stored: n.store.MarkStatusStored, Late: n.report.networkStatusLate,
	})
	return &pods{node: n, planner: planner, networkStatus: status, attacher: attach.New(attach.Options{
		Store: n.store, Renew: planner.renew, Plugins: n.operations, Operations: n.operations, Netns: n.netns,
		RestoreDevice: hwdevices.NewRestorer(n.cfg.Hardware.SysRoot).Restore,
		ForgetDefaultRoutes: func(sandboxID string) error {
			if n.runtime.name() == runtimeContainerd { // it runs no CHECK
				return nil
			}
			return n.operations.ForgetDefaultRoutes(sandboxID)
		},
		Limits: n.cfg.limits(), Deferred: n.report.delDeferred, Metrics: n.cfg.Metrics, Added: status.Added, Ours: n.custody.ours,
	})}
}

// parts has the parts that serve pods. Calls of the kubelet and the runtime, and the sweep, use them.
type parts struct {
	*pods
	edits     *podEdits
	checker   *checker
	jobs      *attachJobs
	unclaimed *unclaimedPods
	preparer  *preparer
	retrigger *podRetrigger
}

// newParts returns the parts, each made after those that it needs.
func newParts(p *pods) *parts {
	edits, checker := newPodEdits(p), newChecker(p)
	jobs := newAttachJobs(p, edits, checker)
	return &parts{
		pods: p, edits: edits, checker: checker, jobs: jobs, preparer: &preparer{pods: p, jobs: jobs}, retrigger: newPodRetrigger(p.node),
		unclaimed: &unclaimedPods{pods: p, jobs: jobs, edits: edits, turns: semaphore.NewWeighted(plansAtOnce)},
	}
}

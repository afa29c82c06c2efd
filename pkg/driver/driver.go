package driver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	securejoin "github.com/cyphar/filepath-securejoin"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadlisters "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/listers/k8s.cni.cncf.io/v1"
	"golang.org/x/sync/semaphore"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/internal/multusstate"
	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/cdi"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/events"
	"github.com/nadra-dev/nadra/pkg/driver/internal/hwdevices"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podnet"
	"github.com/nadra-dev/nadra/pkg/driver/internal/publish"
	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

// Driver is the node driver. Make it with New, then Run it once. It wires the parts, which do
// the work.
type Driver struct {
	*environment
	cfg     Config
	clients Clients
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
	sweeper       *sweeper
	sweeps        background.Trigger // requests sweeps
	unclaimed     *unclaimedPods
	preparer      *preparer
	checker       *checker
	adopter       *adopter
	retrigger     *podRetrigger
	plugin        plugin
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

// bootIDFile has the kernel's identity of this boot, in the host's root.
const bootIDFile = "proc/sys/kernel/random/boot_id"

// environment is what a driver works with on its node. Tests have one of their own.
type environment struct {
	// store has no records until the driver has the state directory.
	store   *checkpoint.Store
	plugins operations.Plugins
	netns   attach.Netns
	// defaultNetwork describes a sandbox's interfaces on the default network.
	defaultNetwork func(context.Context, attachment.Sandbox) ([]*nadv1.NetworkStatus, error)
	// isHost reports whether the network namespace at a path is the host's.
	isHost func(netns string) bool
	nads   nadSource
	links  linkSource
	events *events.Recorder
}

// nadSource lists and watches NADs. It is a publish.NADWatch outside of tests.
type nadSource interface {
	Lister() nadlisters.NetworkAttachmentDefinitionLister
	Start(ctx context.Context, changed func()) error
}

// linkSource lists and watches the host's network interfaces. It is publish.HostLinks
// outside of tests.
type linkSource interface {
	List() (map[string]offer.Link, error)
	Watch(ctx context.Context, changed func(), gone func(name string)) error
}

// openEnvironment returns the environment of a driver in its container.
func openEnvironment(ctx context.Context, cfg Config, clients Clients) (*environment, error) {
	bootID, err := os.ReadFile(filepath.Join(cfg.HostRoot, bootIDFile))
	if err != nil {
		return nil, fmt.Errorf("reading the boot ID: %w", err)
	}
	env := &environment{store: checkpoint.New(cfg.StateDir, strings.TrimSpace(string(bootID)))}
	namespaces, err := podns.New(cfg.HostRoot)
	if err != nil {
		return nil, err
	}
	env.isHost = namespaces.IsHost
	runner, err := cniexec.New(cniexec.Options{
		HostRoot:     cfg.HostRoot,
		BinDirs:      cfg.CNIBinDirs,
		CacheDir:     filepath.Join(cfg.StateDir, "cni"),
		RuntimeCache: runtimeCache, MultusCache: filepath.Join(cfg.MultusDir, "results"),
		IsHost: namespaces.IsHost,
		Ran:    cfg.Metrics.Executed,
	})
	if err != nil {
		return nil, err
	}
	env.plugins = runner
	netns := podnet.NewReader(namespaces, publish.NewConfDir(cfg.HostRoot, cfg.CNIConfDir).DefaultName)
	env.netns = netns
	env.defaultNetwork = func(ctx context.Context, s attachment.Sandbox) ([]*nadv1.NetworkStatus, error) {
		cached, err := runner.DefaultNetwork(s.ID)
		if err != nil {
			klog.FromContext(ctx).Info("Reading the runtime's result of the default network failed; network-status goes by the pod's namespace", "pod", s.Pod, "err", err)
		}
		return netns.DefaultNetwork(s, cached)
	}
	if env.nads, err = publish.NewNADWatch(clients.NADs); err != nil {
		return nil, err
	}
	env.links = publish.NewHostLinks(filepath.Join(cfg.HostRoot, "sys"))
	env.events = events.NewRecorder(ctx, cfg.NodeName)
	return env, nil
}

// wire makes a Driver's parts, each after the parts that it needs.
func wire(ctx context.Context, cfg Config, clients Clients, env *environment) (*Driver, error) {
	m := cfg.Metrics
	d := &Driver{
		environment: env, cfg: cfg, clients: clients, started: time.Now(), drain: drainTime, failed: make(chan error, 1), loaded: make(chan struct{}),
		operations: operations.New(ctx, env.plugins, cfg.limits()), background: background.NewGroup(ctx),
		runtime: newRuntimeLink(), sweeps: background.NewTrigger(), slices: slicewriter.NewTracker(m),
		claimStatus: claimstatus.NewWriter(clients.Kube, cfg.DriverName, cfg.NodeName), policies: newNamespacePolicies(clients.Metadata, cfg.Ownership.Unclaimed),
		cdi: cdi.NewWriter(cdi.Options{
			SpecDir: cfg.CDIDir, GateSource: cfg.GateBinary, PluginDir: cfg.pluginDir(), Records: env.store.Dir(), Slow: cfg.limits().Slow,
		}),
	}
	d.successor = newSuccessor(cfg, d.begin, d.tryBegin, d.fail)
	d.retrigger = newPodRetrigger(clients.Kube, cfg.DriverName, cfg.NodeName, env.store, d.background)
	d.owner = newOwner(clients.Metadata, cfg.NodeName, cfg.StateDir, cfg.Ownership, cfg.Profiles)
	var err error
	if d.watch, err = newPodWatch(clients.Kube, cfg.DriverName, cfg.NodeName); err != nil {
		return nil, err
	}
	d.report = &reporter{cfg: cfg, store: env.store, events: env.events, claimStatus: d.claimStatus, metrics: m}
	if err := d.wirePublishers(); err != nil {
		return nil, err
	}
	if err := d.wireAttaching(); err != nil {
		return nil, err
	}
	d.wirePreparing()
	d.wireHooks()
	m.Watch(d.metricsState)
	return d, nil
}

// wirePublishers makes the parts that publish ResourceSlices.
func (d *Driver) wirePublishers() (err error) {
	cfg, h := d.cfg, d.cfg.Hardware
	if d.otherDrivers, err = publish.NewOtherDrivers(d.clients.Kube, cfg.DriverName, cfg.NodeName); err != nil {
		return err
	}
	d.nodePods = publish.NewNodePods(d.clients.Kube, cfg.NodeName)
	d.networks = publish.New(publish.Options{
		Pool: cfg.NodeName + "/networks", NADs: d.nads.Lister(), Links: d.links.List, Missing: d.operations.Missing,
		BinDirs: cfg.CNIBinDirs, Conf: publish.NewConfDir(cfg.HostRoot, cfg.NADConfDir), Owned: d.owner.owned, OtherPools: d.otherDrivers.Pools,
		Status: d.operations.Status, Pods: d.nodePods.Count, Copies: cfg.Copies, Background: d.background,
		HealthChanged: d.report.networkHealth, Refreshed: keepCounters(d.cfg.Metrics, d.store), Outcome: d.slices.Outcome(slicewriter.Networks),
		Draw: rand.N[time.Duration], FreeMemory: debug.FreeOSMemory, Node: d.nodeObject(),
	})
	d.poolSources = hwdevices.NewPoolSources(hwdevices.Clients{Kube: d.clients.Kube, Metadata: d.clients.Metadata, Dynamic: d.clients.Dynamic}, cfg.NodeName, h)
	reader := inventory.Reader{Sys: h.SysRoot, Dev: filepath.Join(cfg.HostRoot, "dev"), Kernel: inventory.HostKernel()}
	d.hardware = hwdevices.New(hwdevices.Options{
		Node: cfg.NodeName, Driver: cfg.DriverName, Copies: cfg.Copies, Pools: d.poolSources.List, Read: reader.Read,
		UsedByPlugins: func(ctx context.Context) (map[string]string, error) {
			return hwdevices.UsedByPlugins(ctx, h.PodResources)
		},
		Owned: d.owner.owned, ProblemChanged: d.report.poolProblem, Outcome: d.slices.Outcome(slicewriter.Hardware),
	})
	d.features = &sliceFeatures{
		known: slicewriter.AllFeatures,
		ask: func(ctx context.Context) (slicewriter.Features, error) {
			return slicewriter.AskFeatures(ctx, d.clients.Kube, cfg.DriverName, cfg.NodeName)
		},
		use: func(features slicewriter.Features) {
			d.networks.UseFeatures(features)
			d.hardware.UseFeatures(features)
		},
	}
	return nil
}

// nodeObject returns the Node that has the profile, or nil if the node shares no slices.
func (d *Driver) nodeObject() *publish.NodeObject {
	if !d.cfg.Profiles {
		return nil
	}
	return &publish.NodeObject{Name: d.cfg.NodeName, Only: d.cfg.ProfilesOnly, Kube: d.clients.Kube, Metadata: d.clients.Metadata}
}

// wireAttaching makes the parts that attach and detach sandboxes.
func (d *Driver) wireAttaching() error {
	custody, err := custodyOf(d.cfg)
	if err != nil {
		return err
	}
	first := d.defaultNetwork
	if d.cfg.BesideMultus {
		first = (&multusEntries{own: first, watch: d.watch, metadata: d.clients.Metadata}).of
	}
	d.networkStatus = networkstatus.NewWriter(networkstatus.Options{
		Kube: d.clients.NetworkStatus, Manager: d.cfg.DriverName, DefaultNetwork: first, Find: d.watch.Find,
		Links: func(s attachment.Sandbox) ([]string, error) {
			ns, err := d.netns.Inspect(s.NetNS)
			return ns.Links, err
		},
		Stored: d.store.MarkStatusStored, Late: d.report.networkStatusLate,
	})
	planner := &planner{
		driverName: d.cfg.DriverName, nodeName: d.cfg.NodeName, isolation: d.cfg.Isolation, networks: d.networks.View, devices: d.hardware.View,
		pluginDevices: func(ctx context.Context, pod attachment.PodRef) (map[string][]string, error) {
			return hwdevices.PluginDevicesOf(ctx, d.cfg.Hardware.PodResources, pod.Namespace, pod.Name)
		},
		describe: hwdevices.NewRestorer(d.cfg.Hardware.SysRoot).Describe, annotation: d.networksReader(), watch: d.watch, kube: d.clients.Kube, metadata: d.clients.Metadata,
	}
	d.attacher = attach.New(attach.Options{
		Store: d.store, Renew: planner.renew, Plugins: d.operations, Operations: d.operations, Netns: d.netns, RestoreDevice: hwdevices.NewRestorer(d.cfg.Hardware.SysRoot).Restore,
		ForgetDefaultRoutes: func(sandboxID string) error {
			if d.runtime.name() == runtimeContainerd { // it runs no CHECK
				return nil
			}
			return d.operations.ForgetDefaultRoutes(sandboxID)
		},
		Limits: d.cfg.limits(), Deferred: d.report.delDeferred, Metrics: d.cfg.Metrics,
		Added: d.networkStatus.Added, Ours: custody.ours,
	})
	d.adopter = &adopter{
		custody: custody, owner: d.owner, store: d.store, adoptions: checkpoint.NewAdoptions(d.store), attacher: d.attacher, operations: d.operations, watch: d.watch, report: d.report,
		requests: background.NewTrigger(),
	}
	d.metadata = &metadataFiles{enabled: d.cfg.DeviceMetadata, store: d.store}
	d.edits = &podEdits{
		podEditor: &podEditor{
			owner: d.owner, policies: d.policies, store: d.store, attacher: d.attacher, planner: planner, watch: d.watch,
			networkStatus: d.networkStatus, claimStatus: d.claimStatus, metadata: d.metadata, report: d.report, annotation: d.networksReader(),
		},
		operations: d.operations, sandboxes: newLiveSandboxes(), queue: newEditQueue(),
	}
	d.checker = &checker{
		operations: d.operations, store: d.store, attacher: d.attacher, watch: d.watch, background: d.background,
		claimStatus: d.claimStatus, events: d.events, sandboxes: d.edits.sandboxes, requestLook: d.sweeps.Set,
		requested: map[string]bool{}, looks: map[checkpoint.Key]look{}, passed: map[networkOfPods]bool{}, doubted: map[networkOfPods][]attachment.PodRef{},
	}
	d.jobs = &attachJobs{
		store: d.store, attacher: d.attacher, watch: d.watch, networkStatus: d.networkStatus,
		metadata: d.metadata, report: d.report, metrics: d.cfg.Metrics, operations: d.operations, edits: d.edits, checker: d.checker, byPod: map[string]*job{}, proven: map[networkIn]bool{},
	}
	d.jobs.prove(d.store.All())
	d.detacher = &detacher{store: d.store, attacher: d.attacher, operations: d.operations}
	ofMultus := d.adopter.ofMultus
	if d.cfg.BesideMultus { // Multus has every sandbox's default network
		ofMultus = func(string) bool { return false }
	}
	d.unclaimed = &unclaimedPods{
		owner: d.owner, policies: d.policies, ofMultus: ofMultus, store: d.store, attacher: d.attacher, planner: planner, operations: d.operations, jobs: d.jobs,
		watch: d.watch, edits: d.edits, turns: semaphore.NewWeighted(plansAtOnce), events: d.events, metrics: d.cfg.Metrics,
	}
	return nil
}

func (d *Driver) networksReader() networksReader {
	return networksReader{besideMultus: d.cfg.BesideMultus}
}

// custodyOf returns who deletes Multus' attachments, by the host's directories.
func custodyOf(cfg Config) (custody, error) {
	var dirs [3]string
	for i, path := range []string{cfg.MultusDir, runtimeCache, cfg.CNIConfDir} {
		inside, err := securejoin.SecureJoin(cfg.HostRoot, path)
		if err != nil {
			return custody{}, fmt.Errorf("finding %s in the host: %w", path, err)
		}
		dirs[i] = inside
	}
	return custody{dir: multusstate.Dir{Multus: dirs[0], Runtime: dirs[1]}, without: multusstate.ConfDirs{Conf: dirs[2]}.WithoutMultus}, nil
}

// wirePreparing makes the parts that the kubelet's calls need.
func (d *Driver) wirePreparing() {
	records := claimRecords{store: d.store, cdi: d.cdi}
	unprepared := &unpreparedClaims{times: map[unpreparedClaim]time.Time{}}
	d.unpreparer = &unpreparer{
		claimRecords: records, attacher: d.attacher, jobs: d.jobs, detacher: d.detacher, unprepared: unprepared, claimStatus: d.claimStatus, sandboxes: d.edits.sandboxes, watch: d.watch,
	}
	cache := &cniCacheCleaner{store: d.store, operations: d.operations, limits: d.attacher.Limits, withoutMultus: d.adopter.without}
	d.sweeper = &sweeper{
		store: d.store, attacher: d.attacher, jobs: d.jobs, operations: d.operations, watch: d.watch, networkStatus: d.networkStatus,
		unpreparer: d.unpreparer, cache: cache, edits: d.edits, checker: d.checker, unclaimed: d.unclaimed, kube: d.clients.Kube, requests: d.sweeps, goneClaims: map[string]bool{},
	}
	d.sweeper.leftovers.Store(&leftovers{})
	containers := &containerCheck{driverName: d.cfg.DriverName, watch: d.watch, kube: d.clients.Kube}
	moved := &movedClaims{store: d.store, watch: d.watch, kube: d.clients.Kube, references: containers.references}
	d.preparer = &preparer{
		claimRecords: records, driverName: d.cfg.DriverName, operations: d.operations, unprepared: unprepared, unpreparer: d.unpreparer,
		sweep: d.sweeper.trigger, hastenDELs: d.attacher.PendingDELs.Hasten, planner: d.edits.planner,
		checkContainers: containers.check, moved: moved, events: d.events,
	}
}

// wireHooks makes the parts that answer the kubelet and the runtime.
func (d *Driver) wireHooks() {
	health := &deviceHealth{
		store: d.store, networks: d.networks.View, devices: d.hardware.View, checker: d.checker, runtime: d.runtime,
		started: d.started, prepared: background.NewTrigger(),
	}
	d.plugin = plugin{
		loaded: d.loaded, retry: d.retrigger.registered.Set,
		preparer: d.preparer, unpreparer: d.unpreparer, runtime: d.runtime, report: d.report, health: health, slices: d.slices,
		metadata: d.metadata, nriSocket: d.cfg.NRISocket, fail: d.fail,
		featuresDropped: d.features.dropped,
	}
	sandboxes := sandboxReader{networksReader: d.networksReader(), isHost: d.isHost}
	parts := hookParts{
		store: d.store, attacher: d.attacher, jobs: d.jobs, detacher: d.detacher, networkStatus: d.networkStatus, claimStatus: d.claimStatus,
		watch: d.watch, runtime: d.runtime, checker: d.checker, sweeper: d.sweeper, metrics: d.cfg.Metrics, sandboxes: sandboxes,
		unclaimed: d.unclaimed, edits: d.edits, retrigger: d.retrigger, waits: &waitAllowance{},
		preparer: d.preparer, gate: d.cdi.ContainerGate, deviceMetadata: d.cfg.DeviceMetadata,
	}
	d.nri = &nriClient{hookParts: parts, socket: d.cfg.NRISocket, hookBudget: d.cfg.HookBudget, takeOver: d.successor.handOver}
}

// keepCounters returns a function that drops the counters of deleted NADs, unless a pod of
// this node still has the network.
func keepCounters(m *metrics.Node, store *checkpoint.Store) func(*publish.View) {
	return func(networks *publish.View) {
		m.Keep(func(namespace, name string) (cniType string, there bool) {
			ref := attachment.NetworkRef{Namespace: namespace, Name: name}
			if cniType, there = networks.PluginType(ref); !there {
				there = hasRecord(store, ref)
			}
			return cniType, there
		})
	}
}

// hasRecord reports whether there is a record of a network.
func hasRecord(store *checkpoint.Store, ref attachment.NetworkRef) bool {
	for _, r := range store.All() {
		if r.Attachment.Network == ref && !r.DeviceOnly {
			return true
		}
	}
	return false
}

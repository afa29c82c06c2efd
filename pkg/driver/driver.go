package driver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	nadinformers "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/informers/externalversions"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/cdi"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/confdir"
	"github.com/nadra-dev/nadra/pkg/driver/internal/events"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podnet"
	"github.com/nadra-dev/nadra/pkg/driver/internal/vfrestore"
)

// bootIDFile is the kernel's identity of this boot, in the host's root.
const bootIDFile = "proc/sys/kernel/random/boot_id"

// Config is what the driver is told at start. All fields are required but Metrics.
type Config struct {
	// DriverName is the DRA driver's name.
	DriverName string
	// NodeName is the Node that the driver runs on.
	NodeName string
	// HostRoot is the host's root directory as the driver sees it; plugins
	// run with it as their root.
	HostRoot string
	// StateDir holds records and the CNI cache; it must survive a reboot.
	StateDir string
	// CNIBinDirs are searched for plugins; paths in the host.
	CNIBinDirs []string
	// CNIConfDir is where the runtime finds the default network; a path in the host.
	CNIConfDir string
	// NADConfDir has the configurations of NADs that have none; a path in the host.
	NADConfDir string
	// NRISocket is the runtime's NRI socket.
	NRISocket string
	// HookBudget is how long the runtime's hooks may wait for plugins, if the
	// runtime's own limit allows. All pods of the node wait with them; what
	// takes longer goes on behind the gate.
	HookBudget time.Duration
	// AttachWait is how long the hook of a new sandbox waits for its networks,
	// HookBudget at most; with zero all attaching goes on behind the gate.
	AttachWait time.Duration
	// AddTimeout and DelTimeout are how long one ADD or DEL of a plugin chain may
	// take before it is ended and tried again. IPAM plugins that wait for longer
	// by themselves have more.
	AddTimeout, DelTimeout time.Duration
	// NetworkStatusWait has containers wait until the pod's network-status is
	// stored.
	NetworkStatusWait bool
	// KubeletPluginsDir and KubeletRegistryDir are the kubelet's directories
	// of the same names; the paths must be the host's.
	KubeletPluginsDir, KubeletRegistryDir string
	// CDIDir is where the runtime looks for CDI specs; the same path in the host.
	CDIDir string
	// GateBinary is the gate to install on the host, a path in the driver's view.
	GateBinary string
	// Isolation says whose networks a pod may use.
	Isolation attachment.Isolation
	// Attachments is how many attachments a network takes on this node.
	Attachments int
	// Copies is how many devices are published for a network when the API
	// server knows no shared devices (DRAConsumableCapacity is off).
	Copies int
	// DeviceMetadata has containers get a file about their devices (KEP-5304).
	DeviceMetadata bool
	// Ownership says whether the node is the driver's; the zero value, that it
	// is, and that pods without claims are none of its business.
	Ownership Ownership
	// Hardware says where resource pools are defined; the zero value has none.
	Hardware Hardware
	// Metrics are what the driver is measured by; nil measures nothing.
	Metrics *metrics.Node
}

// pluginDir returns the driver's own directory below the kubelet's plugins directory.
func (c Config) pluginDir() string { return filepath.Join(c.KubeletPluginsDir, c.DriverName) }

// limits returns the limits of plugins.
func (c Config) limits() attach.Limits { return attach.Limits{Add: c.AddTimeout, Del: c.DelTimeout} }

// Clients are the driver's ways to the API server.
type Clients struct {
	Kube kubernetes.Interface
	// NetworkStatus stores network-status. Containers wait for it, and so it must
	// not wait for the requests of Kube: it has no rate limit of its own.
	NetworkStatus kubernetes.Interface
	NADs          nadclient.Interface
	Metadata      metadata.Interface
	// Dynamic reads SriovNetworkNodePolicies; nil without Hardware.PolicyNamespace.
	Dynamic dynamic.Interface
}

// Driver is the node driver. Make it with New, then Run it once.
type Driver struct {
	cfg     Config
	clients Clients

	store     *checkpoint.Store
	attacher  *attach.Attacher
	retrier   *attach.DelRetrier
	networks  *networks
	restorer  vfrestore.Restorer
	cdi       *cdi.Writer
	publisher *publisher
	parts     sliceParts
	hardware  hardware
	sources   *poolSources
	others    *otherDevices
	machines  *hardwarePublisher
	// networkStatus and claimStatus tell the API server of attachments.
	networkStatus *networkstatus.Writer
	claimStatus   *claimstatus.Writer
	events        *events.Recorder
	owner         *owner
	watch         *podWatch
	cache         cniCache
	// isHost reports whether a network namespace, by its path, is the host's.
	isHost   func(netns string) bool
	sweeper  *sweeper
	runtime  runtimeLink
	pods     podLocks
	jobs     jobs
	buried   tombstones
	checks   *checker
	quiet    background // what nobody waits for
	waker    waker
	refused  firstTimes // Unprepare was refused, by claim UID
	detaches underway
	slices   publication
	metrics  *metrics.Node
	begun    time.Time
	drain    time.Duration // drainTime, shorter in tests
	read     atomic.Bool   // the NADs were, which comes before all else
	prepared chan struct{} // of capacity 1: claims have been, whose devices' health is to be told
	// updateMetadata is the helper's; nil where containers get no metadata.
	updateMetadata func(ctx context.Context, claimNamespace, claimName string, claimUID types.UID, request string, devices []kubeletplugin.Device) error

	unlock  func() // lets the next driver have the state
	damaged []checkpoint.Damaged
	failed  chan error // of capacity 1: why Run must end
}

// New takes over the state of earlier runs, when the driver before has ended,
// and prepares a driver. Nothing is started, and nobody is called.
func New(ctx context.Context, cfg Config, clients Clients) (_ *Driver, err error) {
	bootID, err := os.ReadFile(filepath.Join(cfg.HostRoot, bootIDFile))
	if err != nil {
		return nil, fmt.Errorf("reading the boot ID: %w", err)
	}
	unlock, err := lockState(ctx, cfg.StateDir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			unlock()
		}
	}()
	store, damaged, err := checkpoint.Open(cfg.StateDir, strings.TrimSpace(string(bootID)))
	if err != nil {
		return nil, fmt.Errorf("opening the state in %s: %w", cfg.StateDir, err)
	}
	namespaces, err := podns.New(cfg.HostRoot)
	if err != nil {
		return nil, err
	}
	run, err := cniexec.New(cniexec.Options{
		HostRoot: cfg.HostRoot,
		BinDirs:  cfg.CNIBinDirs,
		CacheDir: filepath.Join(cfg.StateDir, "cni"),
		IsHost:   namespaces.IsHost,
		Ran:      cfg.Metrics.Executed,
	})
	if err != nil {
		return nil, err
	}
	netns := podnet.NewReader(namespaces, confdir.New(cfg.HostRoot, cfg.CNIConfDir).DefaultName)
	d := &Driver{
		cfg: cfg, clients: clients, store: store,
		isHost:   namespaces.IsHost,
		cache:    run,
		sweeper:  newSweeper(),
		checks:   newChecker(),
		networks: &networks{},
		cdi: cdi.NewWriter(cdi.Options{
			SpecDir: cfg.CDIDir, GateSource: cfg.GateBinary, PluginDir: cfg.pluginDir(), Records: store.Dir(), Slow: cfg.limits().Slow,
		}),
		claimStatus: claimstatus.NewWriter(clients.Kube, cfg.DriverName),
		events:      events.NewRecorder(ctx, cfg.NodeName),
		damaged:     damaged,
		unlock:      unlock,
		waker:       waker{registered: make(chan struct{}, 1)},
		failed:      make(chan error, 1),
		prepared:    make(chan struct{}, 1),
		begun:       time.Now(),
		drain:       drainTime,
	}
	d.measure(cfg.Metrics)
	d.restorer = vfrestore.New(cfg.Hardware.SysRoot)
	d.attacher = attach.New(attach.Options{
		Store: store, Plugins: run, Netns: netns, RestoreDevice: d.restorer.Restore, Limits: cfg.limits(),
		Deferred: d.delDeferred, StatusWait: cfg.NetworkStatusWait, Metrics: cfg.Metrics,
	})
	d.retrier = attach.NewDelRetrier(d.attacher)
	if d.watch, err = newPodWatch(clients.Kube, cfg.NodeName, d.podGone); err != nil {
		return nil, err
	}
	if d.owner, err = newOwner(clients.Metadata, cfg.NodeName, cfg.Ownership); err != nil {
		return nil, err
	}
	d.owner.changed = func(ours, told bool) { d.ownerChanged(ctx, ours, told) }
	d.networkStatus = networkstatus.NewWriter(networkstatus.Options{
		Kube: clients.NetworkStatus, Manager: cfg.DriverName, DefaultNetwork: netns.DefaultNetwork, Pods: d.watch,
		Stored: d.store.MarkStatusStored, Stale: d.attachAgain, Late: d.reportStatusLate,
	})
	d.checks.plugins = run
	if err := d.watchChecks(); err != nil {
		return nil, err
	}
	d.publisher = &publisher{
		missing:  run.Missing,
		networks: d.networks,
		offers:   d.owner.offers,
		health:   newHealth(&d.quiet, run.Status),
		pool:     cfg.NodeName + "/networks",
		binDirs:  cfg.CNIBinDirs,
		conf:     confdir.New(cfg.HostRoot, cfg.NADConfDir),
		free:     debug.FreeOSMemory,
		options:  deviceOptions{attachments: int64(cfg.Attachments), copies: cfg.Copies},
		changed:  make(chan struct{}, 1),
		spread:   spread{draw: rand.N[time.Duration]},
	}
	if err := d.newHardware(); err != nil {
		return nil, err
	}
	if d.others, err = newOtherDevices(clients.Kube, cfg.DriverName, cfg.NodeName, d.publisher.poke); err != nil {
		return nil, err
	}
	d.publisher.lent = d.others.pools
	d.publisher.health.changed, d.publisher.health.tell = d.publisher.ask, d.reportHealth
	d.publisher.outcome, d.machines.outcome = d.slices.of(partNetworks), d.slices.of(partHardware)
	d.metrics.Watch(d.state)
	return d, nil
}

// Run serves until ctx ends or something fails for good, and says why. What
// is under way then gets a moment to end: first the plugins that run, then the
// status writes.
func (d *Driver) Run(ctx context.Context) error {
	defer d.unlock()
	d.events.Start(d.clients.Kube)
	defer d.events.Shutdown()
	for _, damaged := range d.damaged {
		d.reportDamage(ctx, damaged)
	}
	telling, told := context.WithCancel(context.WithoutCancel(ctx))
	var status sync.WaitGroup
	status.Go(func() { d.networkStatus.Run(telling) })
	status.Go(func() { d.claimStatus.Run(telling) })
	base, stopJobs := context.WithCancelCause(context.WithoutCancel(ctx))
	d.jobs.base = base

	err := d.serve(ctx)
	timer := time.AfterFunc(d.drain, func() { stopJobs(errDriverStop) })
	d.jobs.group.Wait()
	timer.Stop()
	stopJobs(errDriverStop)
	told()
	status.Wait()
	d.store.WaitSynced() // the last to write to it were the status writers
	return err
}

// serve answers the kubelet and the runtime until ctx ends.
func (d *Driver) serve(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	quiet, hush := context.WithCancel(ctx)
	d.quiet.base = quiet
	defer d.quiet.group.Wait()
	defer hush()
	factory := nadinformers.NewSharedInformerFactory(d.clients.NADs, 0)
	if err := d.watchNADs(ctx, factory); err != nil {
		return err
	}
	d.read.Store(true)
	d.owner.begin(ctx, g.Go)
	links := hostLinks{sysRoot: filepath.Join(d.cfg.HostRoot, "sys")}
	d.publisher.links = links.list
	if err := d.cdi.Install(d.store.All()); err != nil {
		return err
	}
	d.others.begin(ctx, g.Go)
	d.collectGarbage(ctx)
	// The kubelet may ask as soon as it can, and must then find the networks.
	if _, err := d.publisher.refresh(ctx); err != nil {
		return err
	}
	d.beginHardware(ctx, g.Go)
	helper, err := d.startKubeletPlugin(ctx)
	if err != nil {
		return err
	}
	defer helper.Stop()
	d.parts.send = helper.PublishResources
	d.publisher.publish = func(ctx context.Context, pools poolMaker) error {
		return d.parts.publish(ctx, partNetworks, pools)
	}
	if d.cfg.DeviceMetadata {
		d.updateMetadata = helper.UpdateRequestMetadata
	}
	d.parts.send = d.slices.noting(d.parts.send)

	g.Go(func() error { d.watch.informer.RunWithContext(ctx); return nil })
	g.Go(func() error { return d.publisher.spread.countNodes(ctx, d.clients.Metadata) })
	g.Go(func() error { return d.publisher.run(ctx) })
	g.Go(func() error { return d.wakeAfterRegistration(ctx) })
	g.Go(func() error { return d.runHardware(ctx) })
	g.Go(func() error { return links.watch(ctx, d.publisher.poke) })
	g.Go(func() error { return d.runNRI(ctx) })
	g.Go(func() error { return d.slices.run(ctx, d.listSlices) })
	g.Go(func() error { return d.runSweep(ctx) })
	g.Go(func() error { return d.retrier.Run(ctx) })
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.failed:
			return err
		}
	})
	return g.Wait()
}

// watchNADs fills the cache of NADs and has the publisher look at every change.
func (d *Driver) watchNADs(ctx context.Context, factory nadinformers.SharedInformerFactory) error {
	nads := factory.K8sCniCncfIo().V1().NetworkAttachmentDefinitions()
	d.publisher.nads = nads.Lister()
	if err := nads.Informer().SetTransform(slimNAD); err != nil {
		return fmt.Errorf("watching NetworkAttachmentDefinitions: %w", err)
	}
	poke := func(any) { d.publisher.ask(causeNADs) }
	if _, err := nads.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: poke, UpdateFunc: func(_, n any) { poke(n) }, DeleteFunc: poke,
	}); err != nil {
		return fmt.Errorf("watching NetworkAttachmentDefinitions: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), nads.Informer().HasSynced) {
		return errors.New("stopped before the NetworkAttachmentDefinitions were read")
	}
	return nil
}

func (d *Driver) startKubeletPlugin(ctx context.Context) (*kubeletplugin.Helper, error) {
	dir := d.cfg.pluginDir()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("making the plugin directory: %w", err)
	}
	helper, err := kubeletplugin.Start(ctx, measuredPlugin{plugin{d}}, append(d.metadataOptions(),
		kubeletplugin.DriverName(d.cfg.DriverName),
		kubeletplugin.KubeClient(d.clients.Kube),
		kubeletplugin.NodeName(d.cfg.NodeName),
		kubeletplugin.PluginDataDirectoryPath(dir),
		kubeletplugin.RegistrarDirectoryPath(d.cfg.KubeletRegistryDir),
		// Pods are prepared in parallel: a Prepare that waits, or an Unprepare
		// with a slow plugin, must not hold the others. Each pod has its lock.
		kubeletplugin.Serialize(false),
		kubeletplugin.GRPCInterceptor(d.waker.intercept),
	)...)
	if err != nil {
		return nil, fmt.Errorf("registering with the kubelet: %w", err)
	}
	return helper, nil
}

// fail ends Run with err.
func (d *Driver) fail(err error) {
	select {
	case d.failed <- err:
	default: // it is ending already
	}
}

package driver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadlisters "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/listers/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/podnet"
	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/events"
	"github.com/nadra-dev/nadra/pkg/driver/internal/hwdevices"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
	"github.com/nadra-dev/nadra/pkg/driver/internal/publish"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
)

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
	// pluginDevices returns the devices of device plugins that a pod has, by resource.
	pluginDevices func(context.Context, attachment.PodRef) (map[string][]string, error)
	nads          nadSource
	links         linkSource
	events        *events.Recorder
	watch         *podWatch
	// references returns what the containers of a pod with these claims reference.
	references func(context.Context, attachment.PodRef, []*resourceapi.ResourceClaim) (*podReferences, error)
	// useImages has plugins run from the copies of image volumes that this driver has made. The state directory is
	// then this driver's.
	useImages func() error
	// drain is drainTime, and registrationWait the constant of that name. Both are shorter in tests.
	drain, registrationWait time.Duration
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
	namespaces, err := podns.New(cfg.HostRoot)
	if err != nil {
		return nil, err
	}
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
	useImages, err := cniexec.CopyImages(cfg.HostRoot, cfg.StateDir, cfg.CNIImages)
	if err != nil {
		return nil, err
	}
	nads, err := publish.NewNADWatch(clients.NADs)
	if err != nil {
		return nil, err
	}
	watch, err := newPodWatch(clients.Kube, cfg.NodeName)
	if err != nil {
		return nil, err
	}
	netns := podnet.NewReader(namespaces, publish.NewConfDir(cfg.HostRoot, cfg.CNIConfDir).DefaultName)
	return &environment{
		store: checkpoint.New(cfg.StateDir, strings.TrimSpace(string(bootID))), plugins: runner, netns: netns, isHost: namespaces.IsHost,
		defaultNetwork: func(ctx context.Context, s attachment.Sandbox) ([]*nadv1.NetworkStatus, error) {
			cached, err := runner.DefaultNetwork(s.ID)
			if err != nil {
				klog.FromContext(ctx).Info("Reading the runtime's result of the default network failed; network-status goes by the pod's namespace", "pod", s.Pod, "err", err)
			}
			return netns.DefaultNetwork(s, cached)
		},
		pluginDevices: func(ctx context.Context, pod attachment.PodRef) (map[string][]string, error) {
			return hwdevices.PluginDevicesOf(ctx, cfg.Hardware.PodResources, pod.Namespace, pod.Name)
		},
		nads: nads, links: publish.NewHostLinks(filepath.Join(cfg.HostRoot, "sys")), events: events.NewRecorder(ctx, cfg.NodeName),
		watch: watch, references: watch.references, useImages: useImages, drain: drainTime, registrationWait: registrationWait,
	}, nil
}

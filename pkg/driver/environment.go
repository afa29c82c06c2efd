package driver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadlisters "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/listers/k8s.cni.cncf.io/v1"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/events"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podnet"
	"github.com/nadra-dev/nadra/pkg/driver/internal/publish"
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
	List() (map[string]publish.Link, error)
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

package driver

import (
	"context"
	"path/filepath"
	"time"

	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/hwdevices"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
	"github.com/nadra-dev/nadra/pkg/driver/internal/publish"
)

// Config has the driver's settings. All fields are required but PodUID, Serving and Metrics.
type Config struct {
	// NodeName is the Node that the driver runs on.
	NodeName string
	// PodUID is the UID of the driver's pod. Without it, the driver does not ask another one to
	// hand over, and waits for its end.
	PodUID string
	// Serving, if it is not nil, serves metrics while the driver has the state directory, until
	// ctx ends.
	Serving func(ctx context.Context) error
	// HostRoot is the host's root directory as the driver sees it. Plugins run with it as
	// their root.
	HostRoot string
	// StateDir has the records and the CNI cache. It must survive a reboot.
	StateDir string
	// CNIBinDirs are searched for plugins. They are paths in the host.
	CNIBinDirs []string
	// CNIImages are the names of the image volumes whose plugins some of CNIBinDirs have. It may be empty.
	CNIImages []string
	// CNIConfDir is where the runtime finds the default network, a path in the host.
	CNIConfDir string
	// NADConfDir has the configurations of NADs that have none, a path in the host.
	NADConfDir string
	// MultusDir is Multus' cniDir, a path in the host. It need not exist.
	MultusDir string
	// NRISocket is the runtime's NRI socket.
	NRISocket string
	// HookBudget is how long one of the runtime's hooks may wait for plugins, if the runtime's own
	// limit allows. All pods of the node wait with it, so all hooks together may wait a share of the
	// time only. Attaching that takes longer continues behind the gate.
	HookBudget time.Duration
	// AddTimeout and DelTimeout limit one ADD or DEL of a plugin chain, which is then ended
	// and tried again. IPAM plugins that wait longer by themselves have more time.
	AddTimeout, DelTimeout time.Duration
	// KubeletPluginsDir and KubeletRegistryDir are the kubelet's directories of the same
	// names. The paths must be the host's.
	KubeletPluginsDir, KubeletRegistryDir string
	// CDIDir is where the runtime looks for CDI specs, the same path in the host.
	CDIDir string
	// GateBinary is the gate to install on the host, a path in the driver's view.
	GateBinary string
	// Isolation determines whose networks a pod may use.
	Isolation attachment.Isolation
	// Profiles has the node share slices with like nodes, which nadra-controller writes.
	Profiles bool
	// ProfilesOnly, with Profiles, has it publish no network in a slice of its own.
	ProfilesOnly bool
	// Copies is the number of devices for a shared one if the API server knows no shared
	// devices (DRAConsumableCapacity is off).
	Copies int
	// DeviceMetadata gives containers a file about their devices (KEP-5304).
	DeviceMetadata bool
	// Ownership determines whether the node is nadra's. With the zero value it is, and pods
	// without claims are ignored.
	Ownership Ownership
	// BesideMultus is set if the runtime calls Multus, which attaches the networks of its own
	// annotation. nadra then goes by attachment.OwnNetworksAnnotation alone, and keeps Multus' entry
	// of network-status.
	BesideMultus bool
	// Hardware has the places where resource pools are defined. The zero value has none.
	Hardware Hardware
	// Metrics measures the driver.
	Metrics *metrics.Node
}

// Hardware has the places where resource pools are defined and hardware is read.
type Hardware = hwdevices.Sources

// PoolConfig is a ConfigMap with the configuration of a device plugin.
type PoolConfig = hwdevices.PoolConfig

// pluginDir returns the driver's own directory below the kubelet's plugins directory.
func (c Config) pluginDir() string { return filepath.Join(c.KubeletPluginsDir, v1alpha1.DriverName) }

// networksText returns the annotation by which a pod requests networks of nadra.
func (c Config) networksText(annotations map[string]string) string {
	if c.BesideMultus {
		return annotations[attachment.OwnNetworksAnnotation]
	}
	return attachment.NetworksText(annotations)
}

// limits returns the limits of plugins.
func (c Config) limits() operations.Limits {
	return operations.Limits{Add: c.AddTimeout, Del: c.DelTimeout}
}

// Clients are the driver's clients of the API server.
type Clients struct {
	Kube kubernetes.Interface
	// NetworkStatus stores network-status. It has no rate limit of its own, because
	// containers wait for it, and so it must not wait for the requests of Kube.
	NetworkStatus kubernetes.Interface
	NADs          nadclient.Interface
	Metadata      metadata.Interface
	// Dynamic reads SriovNetworkNodePolicies. It may be nil without
	// Hardware.PolicyNamespace.
	Dynamic dynamic.Interface
}

// SpreadOver returns the time over which that many nodes write a change that concerns all
// of them. Each node writes at a moment of its own in that time.
func SpreadOver(nodes int64) time.Duration { return publish.SpreadOver(nodes) }

// Command nadra-node is nadra's node driver: it offers the NADs that this node
// can attach as DRA devices, and attaches them to the sandboxes of pods whose
// claims were allocated one. See pkg/driver.
//
// nadra-node probe looks at the node instead, prints what it saw as JSON, and
// changes nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/canary"
	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/driver"
)

type options struct {
	driver.Config
	kubeconfig string
	binDirs    string

	globalNamespaces string

	ownedNodes, unclaimed, exemptPods string

	poolConfigs poolConfigs
	sysRoot     string
	podSocket   string

	httpAddress string
	pprof       bool
	verbosity   verbosity
}

// Values of --owned-nodes and --unclaimed.
const (
	allNodes, labelledNodes = "all", "labelled"
	refuse, allow           = "refuse", "allow"
)

// maxTimeout is the most that --add-timeout and --del-timeout may be.
const maxTimeout = 10 * time.Minute

// gcPercent is how much the heap may grow over what is in use. The driver makes
// little garbage, and what it takes is taken from the node's pods:
// docs/performance.md has what this saves. GOGC in the environment overrides it.
const gcPercent = 20

// defaultHTTP is on the node's network, where the port must be nobody else's.
// From 9100 to 9999 every port is some Prometheus exporter's by now; the kubelet,
// kube-proxy and node ports are above 10000, Calico is from 9091 to 9099. Below
// 9000, OpenShift's firewalls would let no other node ask.
const defaultHTTP = ":9078"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "nadra-node:", err)
		stop()
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	o := options{Config: driver.Config{DriverName: v1alpha1.DriverName}}
	fs := flag.NewFlagSet("nadra-node", flag.ContinueOnError)
	klog.InitFlags(fs)
	fs.StringVar(&o.NodeName, "node-name", "", "name of the Node that this driver runs on (required)")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; empty in a pod")
	fs.StringVar(&o.HostRoot, "host-root", "/", "the host's root directory; plugins run with it as their root")
	fs.StringVar(&o.StateDir, "state-dir", "/var/lib/nadra", "directory for what must survive restarts and reboots")
	fs.StringVar(&o.binDirs, "cni-bin-dirs", "/opt/cni/bin", "comma-separated directories of CNI plugins, in the host")
	fs.StringVar(&o.CNIConfDir, "cni-conf-dir", "/etc/cni/net.d", "directory of the default network's configuration, in the host")
	fs.StringVar(&o.NADConfDir, "nad-conf-dir", "/etc/cni/multus/net.d", "directory of the CNI configurations of NADs that have none of their own, in the host; Multus' confDir")
	fs.StringVar(&o.NRISocket, "nri-socket", "/var/run/nri/nri.sock", "NRI socket of the container runtime")
	fs.StringVar(&o.KubeletPluginsDir, "kubelet-plugins-dir", "/var/lib/kubelet/plugins", "the kubelet's plugins directory")
	fs.StringVar(&o.KubeletRegistryDir, "kubelet-registry-dir", "/var/lib/kubelet/plugins_registry", "the kubelet's plugin registration directory")
	fs.StringVar(&o.CDIDir, "cdi-dir", "/var/run/cdi", "where the container runtime looks for CDI specs; the same path in the host")
	fs.StringVar(&o.GateBinary, "gate-binary", "/nadra-gate", "the gate to install on the host, in the driver's image")
	fs.DurationVar(&o.HookBudget, "hook-budget", time.Second, "how long the runtime's hooks may wait for plugins, if its own request timeout allows; all pods of the node wait with them, and what takes longer goes on behind the gate")
	fs.DurationVar(&o.AttachWait, "attach-wait", 0, "how long of that the hook of a new sandbox waits for its networks before it leaves them to the gate; for pods with restartPolicy Never it is always all of it")
	fs.DurationVar(&o.AddTimeout, "add-timeout", 30*time.Second, "how long one ADD of a network's plugins may take before they are ended and tried again; networks with whereabouts have 2m10s at least")
	fs.DurationVar(&o.DelTimeout, "del-timeout", 10*time.Second, "the same of one DEL; networks with whereabouts have 1m10s at least")
	fs.BoolVar(&o.NetworkStatusWait, "network-status-wait", true, "hold a pod's containers until its network-status is stored, as Multus does; without it, programs that go by the annotation take a pod that has just started for one without networks, and whereabouts may give its address to another pod")
	fs.BoolVar(&o.Isolation.On, "namespace-isolation", false, "refuse networks of other namespaces than the pod's and the global ones, as Multus' namespaceIsolation")
	fs.StringVar(&o.globalNamespaces, "global-namespaces", "default", "comma-separated namespaces whose networks all pods may use, as Multus' globalNamespaces")
	fs.StringVar(&o.ownedNodes, "owned-nodes", allNodes, "on which nodes the driver offers networks: all, or labelled, those with the label "+v1alpha1.OwnerLabel+"="+v1alpha1.OwnerNadra)
	fs.StringVar(&o.unclaimed, "unclaimed", "", "what becomes, on such a node, of a new pod that names networks by annotation and has no claim: refuse (the default with --owned-nodes=labelled) or allow (the default with all)")
	fs.StringVar(&o.exemptPods, "exempt-pods", "", "comma-separated namespace/name of pods that are not refused for want of a claim; * and ? match within each")
	fs.BoolVar(&o.DeviceMetadata, "device-metadata", false, "put a file about its devices into each container with a claim: IDs, and the interfaces with their addresses (KEP-5304)")
	fs.IntVar(&o.Attachments, "attachments-per-network", 1000, "how many attachments a network takes on this node")
	fs.IntVar(&o.Copies, "copies-per-network", 16, "devices for each network where the cluster lacks consumable capacity (Kubernetes 1.34 and 1.35)")
	fs.StringVar(&o.httpAddress, "http-address", defaultHTTP, "where to serve /metrics, /healthz and /readyz, and /loglevel to the node itself; empty for nowhere")
	fs.BoolVar(&o.pprof, "pprof", false, "serve profiles at /debug/pprof/ there, to the node itself")
	o.verbosity = verbosity{fs.Lookup("v").Value}
	o.hardwareFlags(fs)
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.CNIBinDirs = strings.Split(o.binDirs, ",")
	o.Isolation.Global = items(o.globalNamespaces)
	if err := o.check(); err != nil {
		return o, err
	}
	o.Ownership = o.ownership()
	o.setHardware()
	return o, nil
}

// items are those of a comma-separated list.
func items(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

func (o options) ownership() driver.Ownership {
	out := driver.Ownership{Refuse: o.unclaimed == refuse, Exempt: items(o.exemptPods)}
	if o.ownedNodes == labelledNodes {
		out.Label, out.Value = v1alpha1.OwnerLabel, v1alpha1.OwnerNadra
		out.Refuse = o.unclaimed != allow
	}
	return out
}

func (o options) check() error {
	switch {
	case o.NodeName == "":
		return errors.New("--node-name is required: set it from spec.nodeName")
	case o.Attachments < 1:
		return fmt.Errorf("--attachments-per-network is %d: it must be at least 1", o.Attachments)
	case o.HookBudget <= 0:
		return fmt.Errorf("--hook-budget is %s: it must be more than zero", o.HookBudget)
	case o.AttachWait < 0:
		return fmt.Errorf("--attach-wait is %s: it must not be less than zero", o.AttachWait)
	case o.AddTimeout <= 0 || o.AddTimeout > maxTimeout:
		return fmt.Errorf("--add-timeout is %s: it must be more than zero and at most %s", o.AddTimeout, maxTimeout)
	case o.DelTimeout <= 0 || o.DelTimeout > maxTimeout:
		return fmt.Errorf("--del-timeout is %s: it must be more than zero and at most %s", o.DelTimeout, maxTimeout)
	case o.Copies < 1:
		return fmt.Errorf("--copies-per-network is %d: it must be at least 1", o.Copies)
	case o.ownedNodes != allNodes && o.ownedNodes != labelledNodes:
		return fmt.Errorf("--owned-nodes is %q: it must be %s or %s", o.ownedNodes, allNodes, labelledNodes)
	case o.pprof && o.httpAddress == "":
		return errors.New("--pprof needs an --http-address to serve profiles at")
	case o.unclaimed != "" && o.unclaimed != refuse && o.unclaimed != allow:
		return fmt.Errorf("--unclaimed is %q: it must be %s or %s", o.unclaimed, refuse, allow)
	}
	if _, _, err := net.SplitHostPort(o.httpAddress); o.httpAddress != "" && err != nil {
		return fmt.Errorf("--http-address is %q: it must be [address]:port, or empty: %w", o.httpAddress, err)
	}
	for _, pattern := range items(o.exemptPods) {
		if _, err := path.Match(pattern, ""); err != nil || strings.Count(pattern, "/") != 1 {
			return fmt.Errorf("--exempt-pods has %q: it must be namespace/name, in which * and ? may stand for others", pattern)
		}
	}
	return nil
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == probeCommand {
		return runProbe(ctx, args[1:], os.Stdout)
	}
	if len(args) > 0 && args[0] == multusCommand {
		return runMultus(ctx, args[1:], os.Stdout)
	}
	if len(args) > 0 && args[0] == cleanupCommand {
		return runCleanup(ctx, args[1:], os.Stdout)
	}
	if len(args) > 0 && args[0] == uninstallCommand {
		return runUninstall(args[1:], os.Stdout)
	}
	if len(args) > 0 && args[0] == canary.Command {
		return runCanary(ctx, args[1:], os.Stdout)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	config, err := restConfig(o.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the API server's address: %w", err)
	}
	clients, err := clientsFor(config)
	if err != nil {
		return err
	}
	o.Metrics = metrics.NewNode()
	d, err := driver.New(ctx, o.Config, clients)
	if err != nil {
		return err
	}
	if err := ownProc(o.HostRoot); err != nil {
		return err
	}
	stop, err := o.serveHTTP(ctx, d)
	if err != nil {
		return err
	}
	defer stop()
	return d.Run(ctx)
}

// ownProc puts this PID namespace's /proc over the host's, for the plugins
// alone: the mount is in the driver's own mount namespace and slave to the
// host's. Plugins find themselves by their PID, which in the host's /proc is
// the number of some other process; and without this the driver would have to
// share the host's PID namespace.
func ownProc(hostRoot string) error {
	if hostRoot == "/" {
		return nil
	}
	if err := unix.Mount("proc", hostRoot+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc for CNI plugins on %s/proc: %w", hostRoot, err)
	}
	return nil
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

func clientsFor(config *rest.Config) (driver.Clients, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = "nadra-node"
	config.QPS, config.Burst = 50, 100
	nads, err := nadclient.NewForConfig(config)
	if err != nil {
		return driver.Clients{}, fmt.Errorf("making the client for NADs: %w", err)
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return driver.Clients{}, fmt.Errorf("making the client for Kubernetes: %w", err)
	}
	unlimited := rest.CopyConfig(config)
	unlimited.QPS = -1
	status, err := kubernetes.NewForConfig(unlimited)
	if err != nil {
		return driver.Clients{}, fmt.Errorf("making the client for network-status: %w", err)
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return driver.Clients{}, fmt.Errorf("making the client for pods' metadata: %w", err)
	}
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json" // custom resources have no other
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return driver.Clients{}, fmt.Errorf("making the client for SriovNetworkNodePolicies: %w", err)
	}
	return driver.Clients{Kube: kube, NetworkStatus: status, NADs: nads, Metadata: meta, Dynamic: dyn}, nil
}

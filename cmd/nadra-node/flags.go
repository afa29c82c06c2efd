package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/version"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver"
)

// options are the driver's configuration and the flags that are not part of it.
type options struct {
	driver.Config
	kubeconfig string
	binDirs    string

	globalNamespaces string

	ownedNodes, unclaimed, exemptPods string

	poolConfigs poolConfigs
	sysRoot     string
	podSocket   string

	httpAddress  string
	healthSocket string
	pprof        bool
	verbosity    verbosity
}

// Values of --owned-nodes.
const allNodes, labelledNodes = "all", "labelled"

// maxTimeout is the largest value of --add-timeout and --del-timeout.
const maxTimeout = 10 * time.Minute

// defaultHTTP is the default of --http-address. The driver is in the node's network, so
// no other program may use the port: Prometheus exporters have 9100 to 9999, the
// kubelet, kube-proxy and node ports are above 10000, and Calico has 9091 to 9099. The
// firewalls of OpenShift block ports below 9000 between nodes.
const defaultHTTP = ":9078"

// parse reads the driver's flags and rejects values that contradict each other.
func parse(args []string) (options, error) {
	o := options{}
	fs := newFlagSet("")
	klog.InitFlags(fs)
	fs.Bool("version", false, version.Usage) // run looks for it; here it is for -h
	fs.StringVar(&o.NodeName, "node-name", "", "name of this Node (required)")
	fs.StringVar(&o.PodUID, "pod-uid", "", "UID of the driver's pod; with it the driver asks another one on the node to hand over, without it waits for that one's end")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; empty in a pod")
	fs.StringVar(&o.HostRoot, "host-root", "/", "the host's root directory, which CNI plugins run in")
	fs.StringVar(&o.StateDir, "state-dir", "/var/lib/nadra", "directory of the state, which must survive restarts and reboots")
	addBinDirs(fs, &o.binDirs)
	fs.StringVar(&o.CNIConfDir, "cni-conf-dir", "/etc/cni/net.d", "directory of the default network's configuration, in the host")
	fs.StringVar(&o.NADConfDir, "nad-conf-dir", "/etc/cni/multus/net.d", "directory of CNI configurations for NADs without spec.config, in the host; Multus' confDir")
	fs.StringVar(&o.MultusDir, "multus-cni-dir", "/var/lib/cni/multus", "directory in which Multus keeps what it has attached, in the host; Multus' cniDir. The driver adopts it while the node is nadra's by its label and the runtime does not call Multus, and releases nothing that Multus has")
	fs.StringVar(&o.NRISocket, "nri-socket", "/var/run/nri/nri.sock", "NRI socket of the container runtime")
	fs.StringVar(&o.KubeletPluginsDir, "kubelet-plugins-dir", "/var/lib/kubelet/plugins", "the kubelet's plugins directory")
	fs.StringVar(&o.KubeletRegistryDir, "kubelet-registry-dir", "/var/lib/kubelet/plugins_registry", "the kubelet's plugin registration directory")
	fs.StringVar(&o.CDIDir, "cdi-dir", "/var/run/cdi", "directory of CDI specs, the same path in the host")
	fs.StringVar(&o.GateBinary, "gate-binary", "/nadra-gate", "the gate's binary in the driver's image, which the driver installs on the host")
	fs.DurationVar(&o.HookBudget, "hook-budget", time.Second, "time that one of the runtime's hooks may wait for plugins, if the runtime's own limit allows; all hooks together wait a tenth of the time, because all pods of the node wait with them, and what takes longer continues behind the gate")
	fs.DurationVar(&o.AddTimeout, "add-timeout", 30*time.Second, "limit for one ADD of a network's plugins, after which they are ended and the ADD is retried; at least 2m10s for networks with whereabouts")
	fs.DurationVar(&o.DelTimeout, "del-timeout", 30*time.Second, "the same for one DEL; at least 1m10s for networks with whereabouts")
	fs.BoolVar(&o.Isolation.On, "namespace-isolation", false, "refuse networks of other namespaces, except those of --global-namespaces; Multus' namespaceIsolation")
	fs.StringVar(&o.globalNamespaces, "global-namespaces", "default", "comma-separated namespaces whose networks all pods may use; Multus' globalNamespaces")
	fs.StringVar(&o.ownedNodes, "owned-nodes", allNodes, "nodes on which the driver publishes networks: all, or labelled for nodes with the label "+v1alpha1.OwnerLabel+"="+v1alpha1.OwnerNadra)
	fs.BoolVar(&o.BesideMultus, "beside-multus", false, "leave the annotation "+attachment.NetworksAnnotation+" to Multus, which stays on the node, and serve claims and the annotation "+attachment.OwnNetworksAnnotation+"; nadra-controller needs the same flag")
	fs.StringVar(&o.unclaimed, "unclaimed", "", "new pods on such a node that name networks by annotation and have no claim: attach the networks by the annotation, refuse the pods, or allow them to run without nadra; the namespace's label "+v1alpha1.UnclaimedLabel+" goes first (default attach with --owned-nodes=labelled or --beside-multus, else allow)")
	fs.StringVar(&o.exemptPods, "exempt-pods", "", "comma-separated namespace/name patterns of pods that are always allowed to run without nadra; * and ? match within namespace and name")
	fs.BoolVar(&o.DeviceMetadata, "device-metadata", false, "add a file about its devices to each container with a claim: IDs, interfaces and addresses (KEP-5304)")
	fs.BoolVar(&o.Profiles, "profiles", false, "write the node's profile to its label "+v1alpha1.ProfileLabel+", and share the slices that nadra-controller writes for it with like nodes; a node publishes its networks itself while there are none")
	fs.BoolVar(&o.ProfilesOnly, "profiles-only", false, "with --profiles, publish no network in a slice of the node itself where the cluster has consumable capacity: claims for networks that nodes do not share, or not yet, wait, and cluster-autoscaler judges the node by its CPU and memory whatever NADs there are")
	fs.IntVar(&o.Copies, "copies", 128, "number of copies of each shared device if the cluster has no consumable capacity (Kubernetes 1.34 and 1.35): that many attachments to the networks of the device can exist on the node")
	fs.StringVar(&o.httpAddress, "http-address", defaultHTTP, "address of /metrics, /healthz and /readyz, and of /loglevel for clients on the node, of the driver that has the state directory; empty serves nothing")
	fs.StringVar(&o.healthSocket, "health-socket", defaultHealthSocket, "socket that answers nadra-node health, for the probes of the driver's pod; not served if its directory is missing")
	fs.BoolVar(&o.pprof, "pprof", false, "serve profiles at /debug/pprof/ of --http-address, for clients on the node")
	o.verbosity = verbosity{fs.Lookup("v").Value}
	o.addHardwareFlags(fs)
	if err := parseArgs(fs, args); err != nil {
		return o, err
	}
	var err error
	if o.CNIBinDirs, o.CNIImages, err = cniexec.BinDirs(o.binDirs, o.StateDir); err != nil {
		return o, err
	}
	o.Isolation.Global = splitList(o.globalNamespaces)
	if err := o.check(); err != nil {
		return o, err
	}
	o.Ownership = o.ownership()
	o.Hardware = o.hardware()
	return o, nil
}

// addBinDirs adds the flag of the directories of plugins, which cniexec.BinDirs reads.
func addBinDirs(fs *flag.FlagSet, value *string) {
	fs.StringVar(value, "cni-bin-dirs", "/opt/cni/bin", "comma-separated directories of CNI plugins, in the host, in the order of the search; image:NAME stands for the image volume at /cni-images/NAME of the driver's pod")
}

// ownership returns what --owned-nodes, --unclaimed and --exempt-pods ask for.
func (o options) ownership() driver.Ownership {
	out := driver.Ownership{Unclaimed: cmp.Or(driver.UnclaimedPolicy(o.unclaimed), driver.AllowUnclaimed), Exempt: splitList(o.exemptPods)}
	if o.ownedNodes == labelledNodes {
		out.Label, out.Value = v1alpha1.OwnerLabel, v1alpha1.OwnerNadra
	}
	if o.ownedNodes == labelledNodes || o.BesideMultus {
		out.Unclaimed = cmp.Or(driver.UnclaimedPolicy(o.unclaimed), driver.AttachUnclaimed)
	}
	return out
}

// check rejects missing and invalid values.
func (o options) check() error {
	switch {
	case o.NodeName == "":
		return errors.New("--node-name is required: set it from spec.nodeName")
	case o.HookBudget <= 0:
		return fmt.Errorf("--hook-budget is %s: it must be more than zero", o.HookBudget)
	case o.AddTimeout <= 0 || o.AddTimeout > maxTimeout:
		return fmt.Errorf("--add-timeout is %s: it must be more than zero and at most %s", o.AddTimeout, maxTimeout)
	case o.DelTimeout <= 0 || o.DelTimeout > maxTimeout:
		return fmt.Errorf("--del-timeout is %s: it must be more than zero and at most %s", o.DelTimeout, maxTimeout)
	case o.Copies < 1:
		return fmt.Errorf("--copies is %d: it must be at least 1", o.Copies)
	case o.ownedNodes != allNodes && o.ownedNodes != labelledNodes:
		return fmt.Errorf("--owned-nodes is %q: it must be %s or %s", o.ownedNodes, allNodes, labelledNodes)
	case o.BesideMultus && o.ownedNodes == labelledNodes:
		return errors.New("--beside-multus and --owned-nodes=labelled contradict each other: beside Multus no node changes hands; leave out --owned-nodes")
	case o.ProfilesOnly && !o.Profiles:
		return errors.New("--profiles-only needs --profiles")
	case o.pprof && o.httpAddress == "":
		return errors.New("--pprof needs an --http-address to serve profiles at")
	case o.unclaimed != "" && !slices.Contains(driver.UnclaimedPolicies, driver.UnclaimedPolicy(o.unclaimed)):
		return fmt.Errorf("--unclaimed is %q: it must be one of %q", o.unclaimed, driver.UnclaimedPolicies)
	}
	if _, _, err := net.SplitHostPort(o.httpAddress); o.httpAddress != "" && err != nil {
		return fmt.Errorf("--http-address is %q: it must be [address]:port, or empty: %w", o.httpAddress, err)
	}
	for _, pattern := range splitList(o.exemptPods) {
		if _, err := path.Match(pattern, ""); err != nil || strings.Count(pattern, "/") != 1 {
			return fmt.Errorf("--exempt-pods has %q: it must be namespace/name, with * and ? as wildcards", pattern)
		}
	}
	return nil
}

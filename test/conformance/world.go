package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nadra-dev/nadra/test/conformance/compare"
)

// The places of a run, all below the node's /run, which goes with the node.
const (
	base        = "/run/conformance"
	binDir      = base + "/bin"     // links to the suite's own plugin
	pluginsDir  = base + "/plugins" // the real plugins
	tracePath   = base + "/trace"
	multusCache = base + "/multus"
	confDirs    = base + "/conf" // of NADs without a configuration
	stateDir    = base + "/state"

	// Directories of plugins and of Multus that no configuration changes.
	hostLocalDir  = "/var/lib/cni/networks"
	runtimeCache  = "/var/lib/cni" // of libcni in every runtime; nadra reads it
	deviceInfoDir = "/var/run/k8s.cni.cncf.io/devinfo"
)

// Programs has the paths of the programs that a run needs.
type Programs struct {
	Multus, Plugin, Nadra, Gate string
}

// world is the node that both sides run on.
type world struct {
	programs Programs
	kubeconf string
	kube     kubernetes.Interface
	nads     nadclient.Interface
	node     *nodeNetwork
	network  *defaultNetwork
	nadra    *nadra
	serial   int // of the pod
}

// newWorld prepares the node for the cases. It must be called in the node's namespaces.
func newWorld(ctx context.Context, programs Programs, kubeconfig string, cases []Case) (*world, error) {
	w := &world{programs: programs, kubeconf: kubeconfig}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	if w.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if w.nads, err = nadclient.NewForConfig(config); err != nil {
		return nil, err
	}
	if err := w.layOut(cases); err != nil {
		return nil, fmt.Errorf("preparing the node: %w", err)
	}
	if w.node, err = newNodeNetwork(nodeLinks(cases)); err != nil {
		return nil, fmt.Errorf("preparing the node's network: %w", err)
	}
	w.network = newDefaultNetwork()
	if err := w.network.write(filepath.Join(base, "net.d")); err != nil {
		return nil, err
	}
	if err := w.createNode(ctx); err != nil {
		return nil, err
	}
	if err := w.createNamespaces(ctx, cases); err != nil {
		return nil, err
	}
	w.nadra, err = startNadra(ctx, w)
	return w, err
}

// layOut creates the directories, the links of all plugins that the cases name, and the
// configurations on the node.
func (w *world) layOut(cases []Case) error {
	for _, dir := range []string{binDir, multusCache, runtimeCache, confDirs + "/all", base + "/net.d"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	errs := []error{os.Symlink("/opt/cni/bin", pluginsDir)}
	real, err := os.ReadDir(pluginsDir)
	if err != nil {
		return err
	}
	types := pluginTypes(cases)
	for _, plugin := range real {
		types = append(types, plugin.Name())
	}
	for _, plugin := range types {
		if err := os.Symlink(w.programs.Plugin, filepath.Join(binDir, plugin)); err != nil && !errors.Is(err, os.ErrExist) {
			errs = append(errs, err)
		}
	}
	for _, c := range cases {
		errs = append(errs, writeFiles(c))
	}
	return errors.Join(errs...)
}

// confDir returns Multus' configuration directory for one case. With a common one, a file
// that is broken on purpose would break the other cases, too.
func confDir(c Case) string {
	return filepath.Join(confDirs, strings.ReplaceAll(c.Name, "/", "_"))
}

func writeFiles(c Case) error {
	var errs []error
	for _, dir := range []string{confDir(c), confDirs + "/all"} {
		errs = append(errs, os.MkdirAll(dir, 0o755))
		for name, content := range c.Files {
			errs = append(errs, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
		}
	}
	return errors.Join(errs...)
}

// reset removes the files that the plugins of one side have left, so that the other side
// gets the same addresses.
func (w *world) reset() error {
	errs := []error{w.node.restore()}
	for _, path := range []string{hostLocalDir, "/var/lib/cni", "/run/cni", deviceInfoDir, tracePath, multusCache, runtimeCache} {
		errs = append(errs, removeContent(path))
	}
	return errors.Join(errs...)
}

// removeContent removes a file, or the content of a directory, which may be a mount point.
func removeContent(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil || !info.IsDir() {
		return errors.Join(err, os.RemoveAll(path))
	}
	entries, err := os.ReadDir(path)
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(path, entry.Name())))
	}
	return err
}

// compare runs both sides of one case and returns what they left.
func (w *world) compare(ctx context.Context, c Case) (multus, nadra compare.Side, err error) {
	w.serial++
	pod, err := w.createPod(ctx, c, fmt.Sprintf("pod-%d", w.serial))
	if err != nil {
		return multus, nadra, fmt.Errorf("creating the pod: %w", err)
	}
	s := sandbox{pod: pod, id: fmt.Sprintf("%064x", w.serial), name: fmt.Sprintf("cni-%d", w.serial), c: c}
	if multus, err = w.side(ctx, s, multusSide{w}); err != nil {
		return multus, nadra, fmt.Errorf("with Multus: %w", err)
	}
	if err := w.clearStatus(ctx, pod); err != nil {
		return multus, nadra, err
	}
	if nadra, err = w.side(ctx, s, &nadraSide{w: w}); err != nil {
		return multus, nadra, fmt.Errorf("with nadra: %w", err)
	}
	return multus, nadra, nil
}

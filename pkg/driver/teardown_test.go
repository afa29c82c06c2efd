package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"golang.org/x/sys/unix"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/nadra-dev/nadra/internal/podnet"
	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/test/bench/sealed"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// realPlugins names, in a process with a network of its own, where it finds the
// reference plugins.
const realPlugins = "NADRA_TEARDOWN_PLUGINS"

// inOwnMachine runs the test again in a process with a network and mounts of its
// own, and with real plugins; it returns true there.
func inOwnMachine(t *testing.T) (inside bool) {
	t.Helper()
	if os.Getenv(realPlugins) != "" {
		return true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), realPlugins+"="+buildPlugins(t))
	if err := sealed.Seal(cmd); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) && os.Getenv("NADRA_LANE") != "ci" {
		t.Skipf("needs the right to make network namespaces: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("in its own machine: %v\n%s", err, out)
	}
	return false
}

// buildPlugins builds the plugins that the cluster of the tests has, of the
// versions that are pinned there.
func buildPlugins(t *testing.T) string {
	t.Helper()
	const module = "github.com/containernetworking/plugins/plugins/"
	dir := t.TempDir()
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/",
		module+"main/macvlan", module+"main/bridge", module+"meta/sbr", module+"ipam/host-local")
	cmd.Dir = "../../test/cluster/components/cni"
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the reference plugins: %v\n%s", err, out)
	}
	return dir
}

// runtimeNode is a node of which the test is the runtime and the kubelet: real
// namespaces, plugins and records.
type runtimeNode struct {
	*testing.T
	world *sealed.World
	*Driver
	*hooks
	nads               []*nadv1.NetworkAttachmentDefinition
	runtime            string // its name
	netns, state, ipam string
	cdiDir             string
	store              *checkpoint.Store
	before             []string // the host's interfaces
	gone, stopped      bool
	endWriter          func() // of the driver
}

const sandboxID = "0123456789abcdef"

// newRuntimeNode prepares pod web for two networks, macvlan with sbr behind it and a
// bridge, and makes its sandbox, which is not reported to the driver.
func newRuntimeNode(t *testing.T, runtime string) *runtimeNode {
	t.Helper()
	n := &runtimeNode{T: t, runtime: runtime, state: t.TempDir(), ipam: t.TempDir(), cdiDir: t.TempDir()}
	var err error
	if n.world, err = sealed.Enter(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	n.must(n.world.Master("lan0"))
	ipam := func(subnet, gateway string) string {
		return fmt.Sprintf(`"ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":%q,"gateway":%q}]],"routes":[{"dst":"10.99.0.0/16"}]}`, n.ipam, subnet, gateway)
	}
	n.nads = []*nadv1.NetworkAttachmentDefinition{
		nad("mac", `{"cniVersion":"1.0.0","name":"mac","plugins":[{"type":"macvlan","master":"lan0",`+ipam("10.1.0.0/24", "10.1.0.1")+`},{"type":"sbr"}]}`),
		nad("br", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br0",`+ipam("10.2.0.0/24", "10.2.0.1")+`}`),
	}
	n.netns, err = n.world.Sandbox("pod")
	n.must(err)
	n.start()
	prepare(t, n.Driver, claim("a", "mac", "br"))
	return n
}

// attached fails the test unless the pod has both networks.
func (n *runtimeNode) attached() {
	n.Helper()
	drivertest.Same(n.T, "attached", bothAttached, drivertest.Phases(n.store))
	in, err := n.attacher.Netns.Inspect(n.netns)
	n.must(err)
	drivertest.Same(n.T, "interfaces in the pod", []string{"lo", "net1", "net2"}, in.Links)
	drivertest.Same(n.T, "addresses that are taken", 2, n.taken())
}

// start starts a driver, on what an earlier one has left.
func (n *runtimeNode) start() {
	n.Helper()
	store, damaged, err := drivertest.OpenStore(n.state, "boot-1")
	n.must(err)
	drivertest.Same(n.T, "damaged files", nil, damaged)
	run, err := cniexec.New(cniexec.Options{HostRoot: "/", BinDirs: []string{os.Getenv(realPlugins)}, CacheDir: filepath.Join(n.state, "cni")})
	n.must(err)
	namespaces, err := podns.New("/")
	n.must(err)
	d := newDriverWith(n.T, setup{
		heldStatus: true, // n ends the writer before it starts the next driver
		cfg:        func(c *Config) { c.CDIDir = n.cdiDir },
		env: func(env *environment) {
			env.store, env.plugins, env.netns = store, run, podnet.NewReader(namespaces, noName)
		},
	}, n.nads...)
	d.attacher.Deferred = func(r checkpoint.Record, cause error) { n.Errorf("the DEL of %s was deferred: %v", r.Key(), cause) }
	n.Driver, n.store, n.endWriter = d, store, writeStatus(n.T, d)
	n.hooks = newHooks(d, tolerant)
	_, err = n.Configure(n.Context(), "", n.runtime, "1")
	n.must(err)
	var pods []*nri.PodSandbox
	if n.before != nil {
		pods = append(pods, n.pod())
	} else {
		n.before = n.links()
	}
	_, err = n.Synchronize(n.Context(), pods, nil)
	n.must(err)
	d.operations.Wait()
}

// pod returns the sandbox as the runtime describes it: CRI-O without a PID, because it
// makes no pause process, and containerd without a namespace that is gone.
func (n *runtimeNode) pod() *nri.PodSandbox {
	p := &nri.PodSandbox{Id: sandboxID, Namespace: drivertest.Web.Namespace, Name: drivertest.Web.Name, Uid: drivertest.Web.UID, Linux: &nri.LinuxPodSandbox{}}
	if n.runtime == runtimeContainerd && !n.stopped {
		p.Pid = 1
	}
	if !n.gone || n.runtime != runtimeContainerd {
		p.Linux.Namespaces = []*nri.LinuxNamespace{{Type: "network", Path: n.netns}}
	}
	return p
}

// do runs one step of a sandbox's life.
func (n *runtimeNode) do(step string) {
	n.Helper()
	switch step {
	case "run":
		n.must(n.RunPodSandbox(n.Context(), n.pod()))
		n.attached()
		return
	case "found":
		n.endWriter()
		n.start()
		n.attached()
		return
	case "namespace":
		n.must(unix.Unmount(n.netns, unix.MNT_DETACH))
		n.must(os.Remove(n.netns))
		n.gone = true
		return
	case "restart":
		n.operations.Wait()
		n.endWriter()
		n.store.WaitSynced()
		n.start()
		return
	case "stop":
		n.must(n.StopPodSandbox(n.Context(), n.pod()))
		n.stopped = true
	case "remove":
		n.must(n.RemovePodSandbox(n.Context(), n.pod()))
	case "sweep":
		n.sweeper.sweep(n.Context(), true)
	case "unprepare":
		results, err := n.plugin.UnprepareResourceClaims(n.Context(), []kubeletplugin.NamespacedObject{{UID: "a-uid"}})
		n.must(errors.Join(err, results["a-uid"]))
	default:
		n.Fatalf("no step %q", step)
	}
	drivertest.Same(n.T, "addresses that are taken after "+step, 0, n.taken())
}

// taken counts the leases of host-local.
func (n *runtimeNode) taken() int {
	n.Helper()
	leases, err := filepath.Glob(filepath.Join(n.ipam, "*", "10.*"))
	n.must(err)
	return len(leases)
}

// links returns the host's interfaces except the bridge, which its plugin never removes.
func (n *runtimeNode) links() []string {
	n.Helper()
	host, err := net.Interfaces()
	n.must(err)
	var out []string
	for _, l := range host {
		if l.Name != "br0" {
			out = append(out, l.Name)
		}
	}
	return out
}

// nothingLeft fails the test unless all is as before the pod.
func (n *runtimeNode) nothingLeft() {
	n.Helper()
	drivertest.Same(n.T, "records", 0, len(n.store.All()))
	drivertest.Same(n.T, "pending DELs", 0, len(n.store.PendingDELs()))
	for what, pattern := range map[string]string{
		"the CNI cache": filepath.Join(n.state, "cni/results/*"), "CDI specs": filepath.Join(n.cdi.SpecDir, "*"),
	} {
		files, err := filepath.Glob(pattern)
		n.must(err)
		drivertest.Same(n.T, what, 0, len(files))
	}
	// The kernel takes what is in a namespace down after the namespace.
	ctx, cancel := context.WithTimeout(n.Context(), tolerant)
	defer cancel()
	for fmt.Sprint(n.links()) != fmt.Sprint(n.before) && background.Sleep(ctx, 10*time.Millisecond) {
	}
	drivertest.Same(n.T, "the host's interfaces", n.before, n.links())
}

func (n *runtimeNode) must(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

// TestTeardownOrders checks the lives of sandboxes in the orders of both runtimes, with
// real namespaces and plugins. CRI-O has removed the namespace before NRI reports the stop
// (cri-o 9905), and will not have with its pull request 9943. containerd has not, and does not
// report sandboxes older than itself at all.
func TestTeardownOrders(t *testing.T) {
	if !inOwnMachine(t) {
		return
	}
	for _, tt := range []struct{ name, runtime, steps string }{
		{"CRI-O", "CRI-O", "run namespace stop remove unprepare"},
		{"CRI-O, stop twice", "CRI-O", "run namespace stop stop remove remove unprepare"},
		{"CRI-O, remove without stop", "CRI-O", "run namespace remove unprepare"},
		{"CRI-O, no driver ran when it was made", "CRI-O", "found namespace stop remove unprepare"},
		{"CRI-O, no event", "CRI-O", "run namespace unprepare unprepare"},
		{"CRI-O, the sweep is first", "CRI-O", "run namespace sweep stop remove unprepare"},
		{"CRI-O, unprepared before it is removed", "CRI-O", "run namespace stop unprepare remove"},
		{"CRI-O, a driver is started before", "CRI-O", "run restart namespace stop remove unprepare"},
		{"CRI-O, a driver is started in between", "CRI-O", "run namespace restart stop remove unprepare"},
		{"CRI-O, a driver is started after stop", "CRI-O", "run namespace stop restart remove unprepare"},
		{"CRI-O, a driver is started after all", "CRI-O", "run namespace stop remove unprepare restart sweep"},
		{"CRI-O with 9943", "CRI-O", "run stop namespace remove unprepare"},
		{"CRI-O with 9943, stop twice", "CRI-O", "run stop stop namespace remove unprepare"},
		{"CRI-O with 9943, no driver ran when it was made", "CRI-O", "found stop namespace remove unprepare"},
		{"CRI-O with 9943, a driver is started in between", "CRI-O", "run stop restart namespace remove unprepare"},
		{"CRI-O with 9943, a driver is started in between and asked again", "CRI-O", "run stop restart stop namespace remove unprepare"},
		{"CRI-O with 9943, unprepared before it is removed", "CRI-O", "run stop namespace unprepare remove"},
		{"containerd", "containerd", "run stop namespace remove unprepare"},
		{"containerd, stop twice", "containerd", "run stop namespace stop remove unprepare"},
		{"containerd, remove without stop", "containerd", "run namespace remove unprepare"},
		{"containerd, no driver ran when it was made", "containerd", "found stop namespace remove unprepare"},
		{"containerd, no event", "containerd", "run namespace sweep unprepare"},
		{"containerd, a driver is started in between", "containerd", "run stop restart namespace remove unprepare"},
		{"containerd, which was started itself", "containerd", "run namespace restart sweep unprepare"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newRuntimeNode(t, tt.runtime)
			defer func() { n.must(n.world.Close()) }()
			for step := range strings.FieldsSeq(tt.steps) {
				n.do(step)
			}
			n.nothingLeft()
		})
	}
}

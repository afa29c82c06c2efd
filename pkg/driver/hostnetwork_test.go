package driver

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podnet"
)

// noName is the name of a default network that is unknown.
func noName() string { return "" }

// hostNamespace returns a path of the host's network namespace. The process' own
// would not do: its first thread may be in a namespace of another test.
func hostNamespace(t *testing.T) string {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	return fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
}

// A runtime may report a path for the namespace of a pod that uses the host's
// network, as CRI-O does. No plugin runs there, no route is touched, and a record
// of it is deleted without a namespace.
func TestHostNetworkPodIsNotAttached(t *testing.T) {
	for _, path := range []string{"", hostNamespace(t)} {
		d := newDriver(t, nad("blue", blueConf))
		namespaces, err := podns.New("/")
		if err != nil {
			t.Fatal(err)
		}
		d.isHost = namespaces.IsHost
		d.attacher.Netns = podnet.NewReader(namespaces, noName)
		prepare(t, d, claim("c", "blue"))
		pod := podNo(1)
		pod.Linux.Namespaces[0].Path = path
		h := &hooks{d: d, budget: func() time.Duration { return time.Minute }, attachWait: time.Minute}
		drivertest.WantError(t, h.RunPodSandbox(t.Context(), pod), "pod default/web uses the host's network", "remove spec.hostNetwork")
		_, _, err = h.CreateContainer(t.Context(), pod, &nri.Container{})
		drivertest.WantError(t, err, "pod default/web uses the host's network")
		drivertest.Same(t, "plugins", nil, d.attacher.Plugins.(*drivertest.Kernel).Calls)
		drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Prepared}, drivertest.Phases(d.store))
		drivertest.Same(t, "sandboxes to attach", 0, len(h.live([]*nri.PodSandbox{pod})))
	}
}

// A sandbox without any namespace is not taken for one of the host's network: a pod
// that containerd has lost the specification of is not told to change its own.
func TestLostSpecificationIsTold(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	prepare(t, d, claim("c", "blue"))
	pod := podNo(1)
	pod.Linux.Namespaces = nil
	h := &hooks{d: d, budget: func() time.Duration { return time.Minute }, attachWait: time.Minute}
	err := h.RunPodSandbox(t.Context(), pod)
	drivertest.WantError(t, err, "has lost the sandbox's specification", "delete the pod")
	if strings.Contains(err.Error(), "hostNetwork") {
		t.Error(err)
	}
	_, _, err = h.CreateContainer(t.Context(), pod, &nri.Container{})
	drivertest.WantError(t, err, "has lost the sandbox's specification")
	drivertest.Same(t, "plugins", nil, d.attacher.Plugins.(*drivertest.Kernel).Calls)
}

// What enters a namespace by itself is stopped, too, should a path that was a
// pod's be the host's now.
func TestNothingEntersTheHostsNamespace(t *testing.T) {
	host := hostNamespace(t)
	namespaces, err := podns.New("/")
	if err != nil {
		t.Fatal(err)
	}
	real := podnet.NewReader(namespaces, noName)
	sandbox := drivertest.SandboxNo(1)
	sandbox.NetNS = host
	_, inspectErr := real.Inspect(host)
	_, routesErr := real.DefaultRoutes(host)
	_, networkErr := real.DefaultNetwork(sandbox)
	rerouteErr := real.Reroute(host, []checkpoint.Route{{Family: "IPv4"}}, nil)
	for what, err := range map[string]error{"inspect": inspectErr, "routes": routesErr, "default network": networkErr, "reroute": rerouteErr} {
		if !errors.Is(err, podns.ErrHost) {
			t.Errorf("%s: %v", what, err)
		}
	}
	d := newDriver(t)
	d.attacher.Netns = real
	if d.attacher.SandboxAlive(checkpoint.Record{Phase: checkpoint.Attached, Sandbox: &sandbox, BootID: d.store.BootID()}) {
		t.Error("an attachment is taken for one in the host's namespace")
	}
}

// An annotated pod with the host's network has nothing to attach, and is let go.
func TestUnclaimedHostNetworkPodIsLetGo(t *testing.T) {
	host := hostNamespace(t)
	namespaces, err := podns.New("/")
	if err != nil {
		t.Fatal(err)
	}
	pod := asking("a", "blue")
	pod.Linux = &nri.LinuxPodSandbox{Namespaces: []*nri.LinuxNamespace{{Type: "network", Path: host}}}
	if err := (&owner{Ownership: byLabel, node: "node-1"}).judge(pod, sandboxOf(pod, namespaces.IsHost)); err != nil {
		t.Error(err)
	}
}

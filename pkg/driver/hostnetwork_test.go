package driver

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/internal/podnet"
	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// noName returns the name of an unknown default network.
func noName() string { return "" }

// hostNamespace returns a path of the host's network namespace. The process' own
// would not do: its first thread may be in a namespace of another test.
func hostNamespace(t *testing.T) string {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	return fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
}

// TestHostNetworkPodIsNotAttached checks a runtime that reports a path for the namespace of a pod with
// the host's network, as CRI-O does. No plugin runs there and no route is changed.
func TestHostNetworkPodIsNotAttached(t *testing.T) {
	for _, path := range []string{"", hostNamespace(t)} {
		namespaces, err := podns.New("/")
		if err != nil {
			t.Fatal(err)
		}
		d := newDriverWith(t, setup{env: func(env *environment) {
			env.isHost, env.netns = namespaces.IsHost, podnet.NewReader(namespaces, noName)
		}}, nad("blue", blueConf))
		prepare(t, d, claim("c", "blue"))
		pod := podNo(1)
		pod.Linux.Namespaces[0].Path = path
		h := newHooks(d, time.Minute)
		drivertest.WantReason(t, h.RunPodSandbox(t.Context(), pod), reason.HostNetwork, "pod default/web ", "spec.hostNetwork")
		_, _, err = h.CreateContainer(t.Context(), pod, &nri.Container{})
		drivertest.WantReason(t, err, reason.HostNetwork, "pod default/web ")
		drivertest.Same(t, "plugins", nil, kernelOf(d).Calls)
		drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Prepared}, drivertest.Phases(d.store))
		drivertest.Same(t, "sandboxes to attach", 0, len(h.attachable([]*nri.PodSandbox{pod})))
	}
}

// prepareDevice records a device without a network for pod web.
func prepareDevice(t *testing.T, d *Driver) {
	t.Helper()
	if err := d.store.Put([]attachment.Prepared{{
		Claim: attachment.ClaimRef{Namespace: "default", Name: "c", UID: "c-uid"}, Pod: drivertest.Web, Request: "vf", Pool: "p", Device: "d", DeviceOnly: true,
		Hardware: &attachment.Hardware{ID: "0000:3b:02.0"},
	}}); err != nil {
		t.Fatal(err)
	}
}

// TestDeviceOfAHostNetworkPod checks that a pod in the host's network keeps the device of its claim while it runs, also
// when the kubelet unprepares the claim of a pod that was deleted by force, and whatever the driver has missed.
func TestDeviceOfAHostNetworkPod(t *testing.T) {
	onHost := func(i int) *nri.PodSandbox {
		pod := podNo(i)
		pod.Linux.Namespaces[0].Path = ""
		return pod
	}
	synchronize := func(t *testing.T, d *Driver, pods ...*nri.PodSandbox) {
		t.Helper()
		if _, err := newHooks(d, time.Minute).Synchronize(t.Context(), pods, nil); err != nil {
			t.Fatal(err)
		}
		d.operations.Wait()
	}
	for name, tt := range map[string]struct {
		begin func(*testing.T, *Driver)
		in    int
	}{
		"the sandbox is new": {func(*testing.T, *Driver) {}, 1},
		"the pod is gone from the API server": {func(t *testing.T, d *Driver) {
			t.Helper()
			watchingPods(t, d, corev1.RestartPolicyAlways)
			d.edits.sweep()
		}, 1},
		"the runtime connects again":       {func(t *testing.T, d *Driver) { t.Helper(); synchronize(t, d, onHost(1)) }, 1},
		"the runtime is not connected yet": {func(_ *testing.T, d *Driver) { d.runtime.lost(nil); d.sandboxes.reset() }, 1},
		"the runtime has made another sandbox meanwhile": {func(t *testing.T, d *Driver) {
			t.Helper()
			d.runtime.setRuntime(runtimeContainerd)
			ended := onHost(1)
			ended.Pid = 0
			synchronize(t, d, ended, onHost(2))
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t)
			prepareDevice(t, d)
			h := newHooks(d, time.Minute)
			if err := h.RunPodSandbox(t.Context(), onHost(1)); err != nil {
				t.Fatal(err)
			}
			d.operations.Wait()
			tt.begin(t, d)
			drivertest.WantReason(t, d.preparer.unprepare(t.Context(), "c-uid"), reason.DELUnfinished, onHost(tt.in).GetId())
			d.runtime.connected()
			for i := range 2 {
				if err := h.StopPodSandbox(t.Context(), onHost(i+1)); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.preparer.unprepare(t.Context(), "c-uid"); err != nil {
				t.Errorf("after the sandbox was stopped: %v", err)
			}
		})
	}
}

// TestDeviceOfASandboxThatNoHookHasSeen checks that a pod keeps the device of its claim if its sandbox was made while the
// driver was away.
func TestDeviceOfASandboxThatNoHookHasSeen(t *testing.T) {
	d := newDriver(t)
	prepareDevice(t, d)
	h := newHooks(d, time.Minute)
	for _, i := range []int{1, 2} {
		if _, err := h.Synchronize(t.Context(), []*nri.PodSandbox{podNo(i)}, nil); err != nil {
			t.Fatal(err)
		}
		d.operations.Wait()
		drivertest.WantReason(t, d.preparer.unprepare(t.Context(), "c-uid"), reason.DELUnfinished, podNo(i).GetId())
	}
}

// TestLostSpecification checks a sandbox without any namespace, whose specification containerd has
// lost: it does not count as one of the host's network.
func TestLostSpecification(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	prepare(t, d, claim("c", "blue"))
	pod := podNo(1)
	pod.Linux.Namespaces = nil
	h := newHooks(d, time.Minute)
	err := h.RunPodSandbox(t.Context(), pod)
	drivertest.WantReason(t, err, reason.SandboxUnspecified, "pod default/web: ")
	_, _, err = h.CreateContainer(t.Context(), pod, &nri.Container{})
	drivertest.WantReason(t, err, reason.SandboxUnspecified)
	drivertest.Same(t, "plugins", nil, kernelOf(d).Calls)
}

// TestNothingEntersTheHostsNamespace checks that everything that enters a namespace refuses the
// host's, in case a pod's path is the host's now.
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
	_, networkErr := real.DefaultNetwork(sandbox, nil)
	rerouteErr := real.Reroute(host, []checkpoint.Route{{Family: "IPv4"}}, nil)
	for what, err := range map[string]error{"inspect": inspectErr, "routes": routesErr, "default network": networkErr, "reroute": rerouteErr} {
		if !errors.Is(err, podns.ErrHost) {
			t.Errorf("%s: %v", what, err)
		}
	}
	d := newDriverWith(t, setup{env: func(e *environment) { e.netns = real }})
	if d.attacher.SandboxAlive(checkpoint.Record{Phase: checkpoint.Attached, Sandbox: &sandbox, BootID: d.store.BootID()}) {
		t.Error("an attachment is taken for one in the host's namespace")
	}
}

// TestUnclaimedHostNetworkPodIsLetGo checks that an annotated pod with the host's network is not
// refused.
func TestUnclaimedHostNetworkPodIsLetGo(t *testing.T) {
	host := hostNamespace(t)
	namespaces, err := podns.New("/")
	if err != nil {
		t.Fatal(err)
	}
	pod := asking("a", "blue")
	pod.Linux = &nri.LinuxPodSandbox{Namespaces: []*nri.LinuxNamespace{{Type: "network", Path: host}}}
	networks, err := unclaimedNetworksOf(pod, namespaces.IsHost)
	if err != nil || networks != nil {
		t.Error(networks, err)
	}
}

// TestDeviceOfAPodThatHasEndedUnseen checks that a claim is unprepared some time after a pod in the host's network has ended
// while the runtime was not connected: the kubelet reports the end of a Job's pod only then.
func TestDeviceOfAPodThatHasEndedUnseen(t *testing.T) {
	d := newDriver(t)
	prepareDevice(t, d)
	pod := podNo(1)
	pod.Linux.Namespaces[0].Path = ""
	if err := newHooks(d, time.Minute).RunPodSandbox(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	d.operations.Wait()
	watchingPods(t, d, corev1.RestartPolicyNever, podMeta(false))
	d.runtime.lost(nil)
	d.sandboxes.reset()
	records, now := d.store.ForClaim("c-uid"), time.Now()
	drivertest.WantReason(t, d.preparer.stillRuns(records, now), reason.DELUnfinished)
	if err := d.preparer.stillRuns(records, now.Add(refuseRunning)); err != nil {
		t.Error(err)
	}
}

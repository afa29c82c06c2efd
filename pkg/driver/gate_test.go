package driver

import (
	"slices"
	"strings"
	"testing"

	nri "github.com/containerd/nri/pkg/api"
	runtimecdi "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/cdi"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// devicesIn reads a CDI directory as a runtime does: device name → the gate's
// arguments in one string.
func devicesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	cache, err := runtimecdi.NewCache(runtimecdi.WithSpecDirs(dir), runtimecdi.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range cache.ListDevices() {
		hook := cache.GetDevice(name).GetSpec().ContainerEdits.Hooks[0]
		out[name] = strings.Join(hook.Args, " ")
		if hook.HookName != "createRuntime" || *hook.Timeout <= int(cdi.GateWait.Seconds()) {
			t.Errorf("%s: hook %s with timeout %d", name, hook.HookName, *hook.Timeout)
		}
	}
	if errs := cache.GetErrors(); len(errs) > 0 {
		t.Errorf("CDI errors: %v", errs)
	}
	return out
}

func TestPrepareBringsTheGate(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	results := prepare(t, d, claim("a", "blue"), claim("b", "blue"))
	devices := devicesIn(t, d.cdi.SpecDir)
	for _, name := range []string{"net.nadra.dev/gate=a-uid.0", "net.nadra.dev/gate=b-uid.1"} {
		if args := devices[name]; !strings.Contains(args, "-claims=a-uid,b-uid ") || !strings.Contains(args, d.store.Dir()) {
			t.Errorf("%s has arguments %q; a container may reference one claim only, and must wait for both", name, args)
		}
	}
	if got := results["a-uid"].Devices[0].CDIDeviceIDs; !slices.Equal(got, []string{"net.nadra.dev/gate=a-uid.0"}) {
		t.Errorf("CDI devices for the kubelet: %v", got)
	}
	if err := d.preparer.unprepare(t.Context(), "a-uid"); err != nil {
		t.Fatal(err)
	}
	if left := devicesIn(t, d.cdi.SpecDir); len(left) != 1 {
		t.Errorf("after unpreparing a: %v", left)
	}
}

func TestSynchronizeAttachesWhatIsMissing(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	k := kernelOf(d)
	prepare(t, d, claim("a", "blue"))
	h := newHooks(d, 0)
	running := &nri.PodSandbox{Id: "sandbox-1", Uid: drivertest.Web.UID, Pid: 7, Linux: &nri.LinuxPodSandbox{Namespaces: []*nri.LinuxNamespace{{Type: "network", Path: "/run/netns/1"}}}}
	stopped := &nri.PodSandbox{Id: "sandbox-0", Uid: drivertest.Web.UID, Linux: &nri.LinuxPodSandbox{}}
	for range 2 {
		if _, err := h.Synchronize(t.Context(), []*nri.PodSandbox{stopped, running}, nil); err != nil {
			t.Fatal(err)
		}
		d.operations.Wait()
	}
	if len(k.Calls) != 1 || !k.Has["sandbox-1/net1"] || d.store.All()[0].Phase != checkpoint.Attached {
		t.Errorf("plugins %v", k.Calls)
	}
}

// TestAlive checks which sandboxes can be attached. The namespace decides for a runtime
// that makes no pause process.
func TestAlive(t *testing.T) {
	const there, gone = "/run/netns/there", "/run/netns/gone"
	opens := func(netns string) bool { return netns == there }
	for name, tt := range map[string]struct {
		runtime, netns string
		pid            uint32
		want           bool
	}{
		"containerd":                              {"containerd", there, 7, true},
		"containerd, stopped":                     {"containerd", "", 0, false},
		"containerd, its pause process died":      {"containerd", there, 0, false},
		"containerd, host network":                {"containerd", "", 7, false},
		"CRI-O with a pause process":              {"CRI-O", there, 7, true},
		"CRI-O without one":                       {"CRI-O", there, 0, true},
		"CRI-O, stopped: the namespace is gone":   {"CRI-O", gone, 0, false},
		"CRI-O, host network":                     {"CRI-O", "", 0, false},
		"with a process in doubt: attaching says": {"CRI-O", gone, 7, true},
		"a runtime of an unknown name":            {"", there, 0, false},
	} {
		if got := alive(tt.runtime, tt.netns, tt.pid, opens); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestSynchronizeWithoutAPID checks sandboxes with PID 0: CRI-O reports it for all
// (drop_infra_ctr), containerd for those whose pause process has died.
func TestSynchronizeWithoutAPID(t *testing.T) {
	for runtime, want := range map[string]checkpoint.Phase{"containerd": checkpoint.Prepared, "CRI-O": checkpoint.Attached} {
		d := newDriver(t, nad("blue", blueConf))
		prepare(t, d, claim("a", "blue"))
		h := newHooks(d, 0)
		if events, err := h.Configure(t.Context(), "", runtime, "1.36.3"); events != 0 || err != nil {
			t.Fatalf("events %v: %v", events, err)
		}
		sandbox := podNo(1)
		sandbox.Pid = 0
		if _, err := h.Synchronize(t.Context(), []*nri.PodSandbox{sandbox}, nil); err != nil {
			t.Fatal(err)
		}
		d.operations.Wait()
		drivertest.Same(t, runtime, map[string]checkpoint.Phase{"net1": want}, drivertest.Phases(d.store))
	}
}

// TestNoGateWithoutItsRecords checks that the records of an interrupted Prepare are
// removed together with their gate, also if the next Prepare fails, and that Unprepare
// removes a gate without records.
func TestNoGateWithoutItsRecords(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	prepare(t, d, claim("b", "blue"))
	prepare(t, d, claim("a", "gone"), claim("b", "blue"))
	if left := devicesIn(t, d.cdi.SpecDir); len(left) > 0 {
		t.Errorf("after a failed Prepare: %v", left)
	}
	if err := d.cdi.Write("alone-uid", nil); err != nil {
		t.Fatal(err)
	}
	if err := d.preparer.unprepare(t.Context(), "alone-uid"); err != nil {
		t.Fatal(err)
	}
	if left := devicesIn(t, d.cdi.SpecDir); len(left) > 0 {
		t.Errorf("after Unprepare: %v", left)
	}
}

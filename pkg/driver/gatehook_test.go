package driver

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// devicesIn reads a CDI directory as a runtime does: device name → the gate's
// arguments in one string.
func devicesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dir))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range cache.ListDevices() {
		hook := cache.GetDevice(name).ContainerEdits.Hooks[0]
		out[name] = strings.Join(hook.Args, " ")
		if hook.HookName != "createRuntime" || *hook.Timeout <= int(gateWait.Seconds()) {
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
	devices := devicesIn(t, d.gate.specDir)
	for _, uid := range []string{"a-uid", "b-uid"} {
		name := "net.nadra.dev/gate=" + uid
		if args := devices[name]; !strings.Contains(args, "-claims=a-uid,b-uid ") || !strings.Contains(args, d.store.Dir()) {
			t.Errorf("%s has arguments %q; a container may reference one claim only, and must wait for both", name, args)
		}
	}
	if got := results["a-uid"].Devices[0].CDIDeviceIDs; !slices.Equal(got, []string{"net.nadra.dev/gate=a-uid"}) {
		t.Errorf("CDI devices for the kubelet: %v", got)
	}
	if err := d.unprepare(t.Context(), "a-uid"); err != nil {
		t.Fatal(err)
	}
	if left := devicesIn(t, d.gate.specDir); len(left) != 1 {
		t.Errorf("after unpreparing a: %v", left)
	}
}

func TestInstallRestoresWhatWasLost(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	d.gate.source = filepath.Join(t.TempDir(), "gate")
	if err := os.WriteFile(d.gate.source, []byte("version 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	prepare(t, d, claim("a", "blue"))
	files, err := filepath.Glob(filepath.Join(d.gate.specDir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v (%v)", files, err)
	}
	// A claim that was forgotten while its file could not be removed.
	if err := d.gate.write("stale-uid", nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	// What a crash leaves.
	if err := os.WriteFile(files[0]+unfinished, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.gate.install(d.store.All()); err != nil {
			t.Fatal(err)
		}
	}
	if devices := devicesIn(t, d.gate.specDir); len(devices) != 1 || devices["net.nadra.dev/gate=a-uid"] == "" {
		t.Errorf("devices %v", devices)
	}
	if files, err = filepath.Glob(filepath.Join(d.gate.specDir, "*")); len(files) != 1 {
		t.Errorf("files %v (%v)", files, err)
	}
	fi, err := os.Stat(d.gate.binary)
	if err != nil || fi.Mode().Perm() != 0o755 {
		t.Errorf("the gate: %v (%v)", fi, err)
	}
}

func TestSynchronizeAttachesWhatIsMissing(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	k := d.attacher.runner.(*kernel)
	prepare(t, d, claim("a", "blue"))
	h := &hooks{d: d, budget: func() time.Duration { return 0 }}
	running := &nri.PodSandbox{Id: "sandbox-1", Uid: web.UID, Pid: 7, Linux: &nri.LinuxPodSandbox{Namespaces: []*nri.LinuxNamespace{{Type: "network", Path: "/run/netns/1"}}}}
	stopped := &nri.PodSandbox{Id: "sandbox-0", Uid: web.UID, Linux: &nri.LinuxPodSandbox{}}
	for range 2 {
		if _, err := h.Synchronize(t.Context(), []*nri.PodSandbox{stopped, running}, nil); err != nil {
			t.Fatal(err)
		}
		d.jobs.group.Wait()
	}
	if len(k.calls) != 1 || !k.has["sandbox-1/net1"] || d.store.All()[0].Phase != checkpoint.Attached {
		t.Errorf("plugins %v", k.calls)
	}
}

// A runtime that makes no pause process is asked for the namespace instead.
func TestWhichSandboxesAreAlive(t *testing.T) {
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
		"a runtime that has not told its name":    {"", there, 0, false},
	} {
		if got := alive(tt.runtime, tt.netns, tt.pid, opens); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// CRI-O tells the PID 0 of its sandboxes (drop_infra_ctr), containerd of those
// whose pause process has died.
func TestSynchronizeWithoutAPID(t *testing.T) {
	for runtime, want := range map[string]checkpoint.Phase{"containerd": checkpoint.Prepared, "CRI-O": checkpoint.Attached} {
		d := newDriver(t, nad("blue", blueConf))
		prepare(t, d, claim("a", "blue"))
		h := &hooks{d: d, budget: func() time.Duration { return 0 }}
		if events, err := h.Configure(t.Context(), "", runtime, "1.36.3"); events != 0 || err != nil {
			t.Fatalf("events %v: %v", events, err)
		}
		sandbox := podNo(1)
		sandbox.Pid = 0
		if _, err := h.Synchronize(t.Context(), []*nri.PodSandbox{sandbox}, nil); err != nil {
			t.Fatal(err)
		}
		d.jobs.group.Wait()
		same(t, runtime, map[string]checkpoint.Phase{"net1": want}, phases(d.store))
	}
}

// What a Prepare that was cut off has noted goes with its gate, also when the
// next one fails; and Unprepare removes a gate that was left alone.
func TestNoGateWithoutItsRecords(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	prepare(t, d, claim("b", "blue"))
	prepare(t, d, claim("a", "gone"), claim("b", "blue"))
	if left := devicesIn(t, d.gate.specDir); len(left) > 0 {
		t.Errorf("after a failed Prepare: %v", left)
	}
	if err := d.gate.write("alone-uid", nil); err != nil {
		t.Fatal(err)
	}
	if err := d.unprepare(t.Context(), "alone-uid"); err != nil {
		t.Fatal(err)
	}
	if left := devicesIn(t, d.gate.specDir); len(left) > 0 {
		t.Errorf("after Unprepare: %v", left)
	}
}

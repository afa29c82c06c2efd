package cdi

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	runtimecdi "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/golden"
)

func newWriter(t *testing.T) *Writer {
	t.Helper()
	source := filepath.Join(t.TempDir(), "gate")
	if err := os.WriteFile(source, []byte("version 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	return NewWriter(Options{
		SpecDir: t.TempDir(), GateSource: source, PluginDir: filepath.Join(t.TempDir(), "net.nadra.dev"), Records: "/records",
		Slow: func(ofPod []checkpoint.Record) bool { return len(ofPod) > 1 },
	})
}

func recordOf(claimUID string) checkpoint.Record {
	return checkpoint.Record{Prepared: attachment.Prepared{Claim: attachment.ClaimRef{UID: claimUID}, Pod: attachment.PodRef{UID: "web"}}}
}

// devices returns the CDI devices that a runtime finds in the directory.
func devices(t *testing.T, w *Writer) *runtimecdi.Cache {
	t.Helper()
	cache, err := runtimecdi.NewCache(runtimecdi.WithSpecDirs(w.SpecDir))
	if err != nil {
		t.Fatal(err)
	}
	if errs := cache.GetErrors(); len(errs) > 0 {
		t.Errorf("CDI errors: %v", errs)
	}
	return cache
}

func TestInstallRestoresSpecs(t *testing.T) {
	w := newWriter(t)
	a := recordOf("a-uid")
	if err := w.Write("a-uid", []checkpoint.Record{a}); err != nil {
		t.Fatal(err)
	}
	// The spec of a claim that was forgotten while its file could not be removed.
	if err := w.Write("stale-uid", nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(w.specFile("a-uid")); err != nil {
		t.Fatal(err)
	}
	// What a crash leaves of a file that is being written.
	if err := os.WriteFile(w.specFile("b-uid")+".tmp-1", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Install([]checkpoint.Record{a}); err != nil {
			t.Fatal(err)
		}
	}
	if got := devices(t, w).ListDevices(); !slices.Equal(got, []string{"net.nadra.dev/gate=a-uid.0"}) {
		t.Errorf("devices %v", got)
	}
	if files, err := filepath.Glob(filepath.Join(w.SpecDir, "*")); len(files) != 1 {
		t.Errorf("files %v (%v), want one", files, err)
	}
	info, err := os.Stat(w.gate)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the gate is %v (%v), want mode 0755", info, err)
	}
}

func TestGateWait(t *testing.T) {
	w := newWriter(t)
	a, b := recordOf("a-uid"), recordOf("b-uid")
	for wait, ofPod := range map[time.Duration][]checkpoint.Record{GateWait: {a}, slowGateWait: {a, b}} {
		if err := w.Write("a-uid", ofPod); err != nil {
			t.Fatal(err)
		}
		hook := devices(t, w).GetDevice("net.nadra.dev/gate=a-uid.0").GetSpec().ContainerEdits.Hooks[0]
		if !slices.Contains(hook.Args, "-wait="+wait.String()) || *hook.Timeout != int((wait+gateMargin).Seconds()) {
			t.Errorf("%d records: arguments %q, timeout %d s; want a wait of %s", len(ofPod), hook.Args, *hook.Timeout, wait)
		}
	}
	if slowGateWait+gateMargin >= 2*time.Minute {
		t.Errorf("the kubelet gives up starting a container after 2 minutes, the gate after %s", slowGateWait+gateMargin)
	}
}

// TestGateOnceForAContainer checks that each network has a device of its own, under which
// the kubelet reports its health, and that a container gets the gate once: CRI-O applies
// every device that the kubelet names, also the same one twice.
func TestGateOnceForAContainer(t *testing.T) {
	w := newWriter(t)
	a, b := recordOf("a-uid"), recordOf("a-uid")
	b.Index = 1
	if err := w.Write("a-uid", []checkpoint.Record{a, b}); err != nil {
		t.Fatal(err)
	}
	named := slices.Concat(DeviceIDs(a), DeviceIDs(b), DeviceIDs(a))
	if want := []string{"net.nadra.dev/gate=a-uid.0", "net.nadra.dev/gate=a-uid.1"}; !slices.Equal(named[:2], want) {
		t.Fatalf("devices %q, want %q", named, want)
	}
	container := &oci.Spec{}
	if _, err := devices(t, w).InjectDevices(container, named...); err != nil {
		t.Fatal(err)
	}
	if hooks := container.Hooks.CreateRuntime; len(hooks) != 1 {
		t.Errorf("the container has the gate %d times, want once", len(hooks))
	}
	if want := []string{"NADRA_CLAIM=a-uid"}; !slices.Equal(container.Process.Env, want) {
		t.Errorf("the container's environment is %q, want %q", container.Process.Env, want)
	}
}

// TestSpecForm compares a spec, which the container runtime and later versions read, with testdata/spec.json: that of a
// claim with a network and a device of a pool, in a pod with another claim.
func TestSpecForm(t *testing.T) {
	w := NewWriter(Options{
		SpecDir: t.TempDir(), PluginDir: "/var/lib/kubelet/plugins/net.nadra.dev", Records: "/var/lib/nadra/claims",
		Slow: func([]checkpoint.Record) bool { return false },
	})
	network, device, other := recordOf("a-uid"), recordOf("a-uid"), recordOf("b-uid")
	device.Index, other.Index = 1, 2
	device.Hardware = &attachment.Hardware{
		ID: "0000:3b:02.0", ResourceName: "intel.com/sriov", PCIAddress: "0000:3b:02.0",
		Files: []attachment.DeviceFile{{Path: "/dev/vfio/vfio"}, {Path: "/dev/vfio/12", ContainerPath: "/dev/vfio/0"}},
		Info:  map[string]map[string]string{"generic": {"deviceID": "0000:3b:02.0"}},
	}
	if err := w.Write("a-uid", []checkpoint.Record{network, device, other}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(w.specFile("a-uid"))
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, filepath.Join("testdata", "spec.json"), indented.String()+"\n")
}

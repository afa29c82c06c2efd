package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/internal/gate"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

var here = gate.Where{SandboxID: "sandbox-1", Cookie: 4711, BootID: "boot-1", Pod: "default/web"}

// claim writes a claim's file with one record.
func claim(t *testing.T, dir, uid, phase, refusal string) {
	t.Helper()
	text := fmt.Sprintf(`{"version":1,"records":[{"phase":%q,"refusal":%q,"statusStored":true,"bootID":"boot-1","sandbox":{"id":"sandbox-1","netNSCookie":4711},
		"pod":{"namespace":"default","name":"web"},"attachment":{"interface":"net1","network":{"namespace":"default","name":%q}}}]}`, phase, refusal, uid)
	tmp := filepath.Join(dir, ".tmp")
	if err := errors.Join(os.WriteFile(tmp, []byte(text), 0o600), os.Rename(tmp, filepath.Join(dir, uid+".json"))); err != nil {
		t.Fatal(err)
	}
}

// never returns the wait limit of a gate that must not wait.
func never(t *testing.T) func() time.Duration {
	return func() time.Duration {
		t.Error("it waits")
		return 0
	}
}

func TestHoldDecidesAtOnce(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(*testing.T, string)
		code    reason.Code // "": the container starts
		names   string
	}{
		{"all attached", func(t *testing.T, dir string) {
			claim(t, dir, "a", "Attached", "")
			claim(t, dir, "b", "Attached", "")
		}, "", ""},
		{"one is refused while another may come", func(t *testing.T, dir string) {
			claim(t, dir, "a", "Attaching", "")
			claim(t, dir, "b", "Prepared", "[PluginFailed] no address is left")
		}, reason.PluginFailed, "pod default/web: network default/b (net1), phase Prepared: [PluginFailed] no address is left"},
		{"one is not prepared while another may come", func(t *testing.T, dir string) {
			claim(t, dir, "a", "Attaching", "")
		}, reason.GateNoRecord, "pod default/web: "},
		{"the records cannot be read", func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, "a.json"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, reason.GateRecordUnreadable, "claim a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			tt.prepare(t, dir)
			err := hold([]string{"a", "b"}, dir, here, never(t))
			if reason.Of(err) != tt.code || err != nil && (reason.In(err.Error()) != tt.code || !strings.Contains(err.Error(), tt.names)) {
				t.Errorf("%v, want %s and %q", err, tt.code, tt.names)
			}
		})
	}
}

// TestHoldWaits changes the records after the gate has begun to wait.
func TestHoldWaits(t *testing.T) {
	tests := []struct {
		name, phase, refusal string
		limit                time.Duration
		code                 reason.Code // "": the container starts
		names                string
	}{
		{"until it is attached", "Attached", "", time.Minute, "", ""},
		{"until it is refused", "Attaching", "[AttachCancelled] the pod is being deleted", time.Minute, reason.AttachCancelled, "network default/a (net1)"},
		{"until the limit", "Attaching", "", 300 * time.Millisecond, reason.AttachRunning, " 300ms: [AttachRunning] pod default/web: network default/a (net1), phase Attaching: "},
		{"not at all", "Attaching", "", 0, reason.AttachRunning, " 0s: [AttachRunning] pod default/web"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			claim(t, dir, "a", "Attaching", "")
			claim(t, dir, "b", "Attached", "")
			asked := 0
			err := hold([]string{"a", "b"}, dir, here, func() time.Duration {
				asked++
				claim(t, dir, "a", tt.phase, tt.refusal)
				return tt.limit
			})
			if reason.Of(err) != tt.code || err != nil && (reason.In(err.Error()) != tt.code || !strings.Contains(err.Error(), tt.names)) {
				t.Errorf("%v, want %s and %q", err, tt.code, tt.names)
			}
			if asked != 1 {
				t.Errorf("asked for the limit %d times", asked)
			}
		})
	}
}

// bundle writes a container's bundle with these namespaces in its configuration.
func bundle(t *testing.T, namespaces string) string {
	t.Helper()
	dir := t.TempDir()
	text := `{"ociVersion":"1.3.0","process":{"args":["sh"]},"linux":{"namespaces":` + namespaces + `}}`
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSandboxAge compares the ages of real processes.
func TestSandboxAge(t *testing.T) {
	const tick = 10 * time.Millisecond
	before := time.Now()
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	after := time.Now()
	namespaces := `[{"type":"pid"},{"type":"ipc","path":"/proc/%[1]d/ns/ipc"},{"type":"network","path":"/proc/%[1]d/ns/net"}]`
	least := time.Since(after)
	age := sandboxAge(bundle(t, fmt.Sprintf(namespaces, child.Process.Pid)))
	if most := time.Since(before); age < least-tick || age > most+tick {
		t.Errorf("%s, want %s to %s", age, least, most)
	}
	if own := sandboxAge(bundle(t, fmt.Sprintf(namespaces, os.Getpid()))); own < age-tick {
		t.Errorf("this process of %s is younger than its child of %s", own, age)
	}
	if init := sandboxAge(bundle(t, fmt.Sprintf(namespaces, 1))); init <= age {
		t.Errorf("process 1 is %s old, the child %s", init, age)
	}
}

func TestSandboxAgeIsNotKnown(t *testing.T) {
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{
		"no bundle":            t.TempDir(),
		"no configuration":     bundle(t, `{`),
		"no namespaces":        bundle(t, `[]`),
		"the host's network":   bundle(t, `[{"type":"pid"}]`),
		"a path of another":    bundle(t, `[{"type":"network","path":"/var/run/netns/cni-1"}]`),
		"a process that ended": bundle(t, fmt.Sprintf(`[{"type":"network","path":"/proc/%d/ns/net"}]`, gone.Process.Pid)),
		"another namespace":    bundle(t, `[{"type":"ipc","path":"/proc/1/ns/net"}]`),
	} {
		if age := sandboxAge(dir); age != 0 {
			t.Errorf("%s: %s", name, age)
		}
	}
}

func TestStateOfRuntimes(t *testing.T) {
	for name, text := range map[string]string{
		"containerd": `{"pid":%d,"bundle":"/b","annotations":{"io.kubernetes.cri.sandbox-id":"s","io.kubernetes.cri.sandbox-name":"web","io.kubernetes.cri.sandbox-namespace":"default"}}`,
		"CRI-O":      `{"pid":%d,"bundle":"/b","annotations":{"io.kubernetes.cri-o.SandboxID":"s","io.kubernetes.pod.name":"web","io.kubernetes.pod.namespace":"default"}}`,
	} {
		s, err := readState(strings.NewReader(fmt.Sprintf(text, os.Getpid())))
		if err != nil {
			t.Fatal(err)
		}
		if s.PID != os.Getpid() || s.Bundle != "/b" || s.annotation(sandboxAnnotations) != "s" ||
			s.annotation(namespaceAnnotations) != "default" || s.annotation(nameAnnotations) != "web" {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if _, err := readState(strings.NewReader("{")); err == nil {
		t.Error("no error of a state that is cut off")
	}
}

// TestHookOfVersionBefore runs the gate as a container that was created before an update does: by
// the arguments of earlier versions, on their records. It reads each state that there is, and one claim of it whose
// networks are attached.
func TestHookOfVersionBefore(t *testing.T) {
	versions, err := filepath.Glob("../../testdata/v*")
	if err != nil || len(versions) < 2 {
		t.Fatalf("found only the versions %q: %v", versions, err)
	}
	attached := map[string]string{"v0.1.0-rc.1": "21711296-7d6e-4da0-a0c9-6f90ef9cd343", "v0.1.0-rc.2": "attached-uid"}
	for _, before := range versions {
		t.Run(filepath.Base(before), func(t *testing.T) { hookOf(t, before, attached[filepath.Base(before)]) })
	}
}

// hookOf runs the gate by the arguments of each CDI spec of a version, and then for a claim that is attached.
func hookOf(t *testing.T, before, claim string) {
	specs, err := filepath.Glob(filepath.Join(before, "cdi", "*.json"))
	if err != nil || len(specs) == 0 {
		t.Fatalf("no specs: %v", err)
	}
	for _, file := range specs {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var spec struct {
			ContainerEdits struct{ Hooks []struct{ Args []string } }
		}
		if err := json.Unmarshal(text, &spec); err != nil {
			t.Fatal(err)
		}
		// The hook gets no state, so it ends after its arguments were read.
		if err := run(spec.ContainerEdits.Hooks[0].Args[1:], strings.NewReader("")); err == nil || !strings.Contains(err.Error(), "reading the hook's state") {
			t.Errorf("%s: %v", file, err)
		}
	}
	var records struct {
		Records []struct {
			Sandbox struct {
				ID          string
				NetNSCookie uint64
			}
			BootID string
		}
	}
	text, err := os.ReadFile(filepath.Join(before, "state", "claims", claim+".json"))
	if err == nil {
		err = json.Unmarshal(text, &records)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := records.Records[0]
	there := gate.Where{SandboxID: r.Sandbox.ID, Cookie: r.Sandbox.NetNSCookie, BootID: r.BootID}
	if err := hold([]string{claim}, filepath.Join(before, "state", "claims"), there, never(t)); err != nil {
		t.Error(err)
	}
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// programOf returns a command that runs a program of an architecture. Programs for arm64 run
// under qemu-user elsewhere; it has no other emulator.
func programOf(t *testing.T, arch, path string, args ...string) *exec.Cmd {
	t.Helper()
	if arch == runtime.GOARCH {
		return exec.CommandContext(t.Context(), path, args...)
	}
	qemu := os.Getenv("NADRA_QEMU")
	if arch != "arm64" {
		t.Fatalf("there is no emulator of %s: run the test on amd64", arch)
	}
	if qemu == "" {
		t.Fatal("NADRA_QEMU does not name qemu-aarch64-static: run make release-check, which unpacks it")
	}
	return exec.CommandContext(t.Context(), qemu, append([]string{path}, args...)...)
}

// checkRuns runs a program of the release as far as it goes without a cluster.
func checkRuns(t *testing.T, arch, name string, program []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	if name == "nadra-gate" {
		checkGate(t, arch, path)
		return
	}
	args, want := []string{"--version"}, fmt.Sprintf("%s %s (commit %s, go", name, testVersion, testCommit)
	if name == "kubectl-nadra" {
		args, want = []string{"version", "--client", "-o", "json"}, fmt.Sprintf("%q: %q,\n  %q: %q", "client", testVersion, "commit", testCommit)
	}
	out, err := programOf(t, arch, path, args...).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte(want)) {
		t.Errorf("%s for %s: %v: %s, want %s", name, arch, err, out, want)
	}
}

// checkGate runs the gate as the hook of a container in this process's network namespace, which
// needs root. Under Debian's qemu-user, which does not know SO_NETNS_COOKIE, it goes as far as
// the namespace's cookie.
func checkGate(t *testing.T, arch, path string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ready.json"), []byte(`{"version":1,"records":[{"deviceOnly":true}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{"ready": "", "absent": "nadra: [GateNoRecord] "}
	if arch != runtime.GOARCH {
		const cookie = "nadra: [KernelTooOld] reading the network namespace's cookie"
		answers = map[string]string{"ready": cookie, "absent": cookie}
	}
	if os.Geteuid() != 0 {
		const namespace = "nadra: [GateBadInput] entering the container's network namespace"
		answers = map[string]string{"ready": namespace, "absent": namespace}
	}
	self := fmt.Sprintf(`{"pid":%d}`, os.Getpid())
	for _, tt := range []struct{ stdin, claims, want string }{
		{"no state", "ready", "nadra: [GateBadInput] reading the hook's state"},
		{`{"pid":0}`, "ready", "nadra: [GateBadInput] opening the container's network namespace /proc/0/ns/net"},
		{self, "ready", answers["ready"]},
		{self, "absent", answers["absent"]},
	} {
		cmd := programOf(t, arch, path, "-records", dir, "-claims", tt.claims)
		cmd.Stdin = strings.NewReader(tt.stdin)
		out, err := cmd.CombinedOutput()
		exit := (*exec.ExitError)(nil)
		if refused := errors.As(err, &exit); refused != (tt.want != "") || !strings.HasPrefix(string(out), tt.want) {
			t.Errorf("the gate for %s with %s, claim %s: %v: %s, want %q", arch, tt.stdin, tt.claims, err, out, tt.want)
		}
	}
}

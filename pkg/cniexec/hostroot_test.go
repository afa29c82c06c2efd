package cniexec

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// lsRoot is a plugin that fails with the names in its root directory.
const lsRoot = `package main

import (
	"fmt"
	"os"
)

func main() {
	entries, err := os.ReadDir("/")
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	fmt.Printf("{\"code\":100,\"msg\":\"root has %s %v\"}", names, err)
	os.Exit(1)
}
`

// Plugins are looked for, and run, in the host's root, also where a directory
// on the way is an absolute link in the host.
func TestPluginsRunInTheHostsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("chroot needs root")
	}
	root := t.TempDir()
	for _, d := range []string{"usr/libexec/cni", "opt"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/usr/libexec", filepath.Join(root, "opt/cni-parent")); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte(lsRoot), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(root, "usr/libexec/cni/where"), source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // there are no libraries in the root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, err := New(Options{HostRoot: root, BinDirs: []string{"/opt/cni-parent/cni"}, CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Add(t.Context(), sandbox, conflist("where"), nil)
	if err == nil || !strings.Contains(err.Error(), "root has [opt usr]") {
		t.Errorf("error %v", err)
	}
}

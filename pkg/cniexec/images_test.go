package cniexec

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

func TestBinDirs(t *testing.T) {
	for _, tt := range []struct {
		value, err   string
		dirs, images []string
	}{
		{value: "/opt/cni/bin", dirs: []string{"/opt/cni/bin"}},
		{value: "image:new,/opt/cni/bin,image:old", dirs: []string{"/state/images/new/current", "/opt/cni/bin", "/state/images/old/current"}, images: []string{"new", "old"}},
		{value: "/opt/cni/bin,", err: `has ""`},
		{value: "cni/bin", err: "absolute path"},
		{value: "image:", err: "name of a volume"},
		{value: "image:../../etc", err: "name of a volume"},
		{value: "image:a/b", err: "name of a volume"},
		{value: "image:" + strings.Repeat("x", 64), err: "name of a volume"},
	} {
		dirs, images, err := BinDirs(tt.value, "/state")
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(err.Error(), "--cni-bin-dirs") {
				t.Errorf("%s: %v", tt.value, err)
			}
			continue
		}
		if diff := cmp.Diff([][]string{tt.dirs, tt.images}, [][]string{dirs, images}); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", tt.value, err, diff)
		}
	}
}

// hugeFile is the size of a sparse file that nothing can read in the time of a test.
const hugeFile = 1 << 42

// volumes are image volumes in a directory, and the state directory of a host's root.
type volumes struct{ dir, root, images string }

func newVolumes(t *testing.T) volumes {
	t.Helper()
	v := volumes{dir: t.TempDir(), root: t.TempDir(), images: "/var/lib/nadra/images"}
	if err := os.MkdirAll(v.root+"/var/lib", 0o755); err != nil {
		t.Fatal(err)
	}
	return v
}

// put replaces the files of a volume.
func (v volumes) put(t *testing.T, volume string, files map[string]string) {
	t.Helper()
	dir := filepath.Join(v.dir, volume)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// take copies volumes and uses the copies, as a driver that has the state directory.
func (v volumes) take(t *testing.T, names ...string) {
	t.Helper()
	use, err := v.copy(names...)
	if err != nil {
		t.Fatal(err)
	}
	if err := use(); err != nil {
		t.Fatal(err)
	}
}

// copy copies volumes. The host's root is the directory of the state, too.
func (v volumes) copy(names ...string) (func() error, error) {
	return copyImages(v.dir, "/", v.root+v.images, names)
}

// read returns a plugin that is run, or "".
func (v volumes) read(volume, name string) string {
	content, _ := os.ReadFile(filepath.Join(v.root+v.images, volume, current, name))
	return string(content)
}

// copies returns the number of entries in the directory of a volume's copies: the link, and each copy.
func (v volumes) copies(volume string) int {
	entries, _ := os.ReadDir(filepath.Join(v.root+v.images, volume))
	return len(entries)
}

// TestTwoVersions checks that the next driver's plugins take effect when it has the state directory and not before, and
// that those before it stay readable for whoever has them open.
func TestTwoVersions(t *testing.T) {
	v := newVolumes(t)
	v.put(t, "reference", map[string]string{"macvlan": "first", "vlan": "first"})
	v.take(t, "reference")
	running, err := os.Open(filepath.Join(v.root+v.images, "reference", current, "macvlan"))
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()

	v.put(t, "reference", map[string]string{"macvlan": "second"})
	use, err := v.copy("reference")
	if err != nil || v.read("reference", "macvlan") != "first" || v.copies("reference") != 3 {
		t.Errorf("before the handover: %v, %q of %d", err, v.read("reference", "macvlan"), v.copies("reference"))
	}
	if err := use(); err != nil || v.read("reference", "macvlan") != "second" || v.read("reference", "vlan") != "" || v.copies("reference") != 2 {
		t.Errorf("after the handover: %v, %q, vlan %q of %d", err, v.read("reference", "macvlan"), v.read("reference", "vlan"), v.copies("reference"))
	}
	if got, err := io.ReadAll(running); err != nil || string(got) != "first" {
		t.Errorf("a plugin that runs: %q, %v", got, err)
	}
	v.take(t)
	if v.copies("reference") != 0 {
		t.Error("the copies of a volume that no flag names are left")
	}
}

// TestDriversInTurn checks that a driver which has waited for longer than another finds its plugins, which that one has
// removed.
func TestDriversInTurn(t *testing.T) {
	v := newVolumes(t)
	v.put(t, "reference", map[string]string{"macvlan": "waits"})
	waiting, err := v.copy("reference")
	if err != nil {
		t.Fatal(err)
	}
	other := v
	other.dir = t.TempDir()
	other.put(t, "reference", map[string]string{"macvlan": "other"})
	other.take(t, "reference")
	if err := waiting(); err != nil || v.read("reference", "macvlan") != "waits" || v.copies("reference") != 2 {
		t.Errorf("%v, %q of %d", err, v.read("reference", "macvlan"), v.copies("reference"))
	}
}

// TestCopyIsWhole checks that a copy which a power cut has damaged is made again, and that what a crash has left goes.
func TestCopyIsWhole(t *testing.T) {
	v := newVolumes(t)
	v.put(t, "reference", map[string]string{"macvlan": "plugin"})
	v.take(t, "reference")
	dir := filepath.Join(v.root+v.images, "reference")
	if err := os.WriteFile(filepath.Join(dir, current, "macvlan"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "new-123"), 0o755); err != nil {
		t.Fatal(err)
	}
	v.take(t, "reference")
	if v.read("reference", "macvlan") != "plugin" || v.copies("reference") != 2 {
		t.Errorf("%q of %d", v.read("reference", "macvlan"), v.copies("reference"))
	}
}

// TestCopyLeavesOut checks that only executable files of the volume itself are copied: a link out of it names a file
// of the driver's container.
func TestCopyLeavesOut(t *testing.T) {
	v := newVolumes(t)
	v.put(t, "reference", map[string]string{"macvlan": "plugin", "LICENSE": "text"})
	dir := filepath.Join(v.dir, "reference")
	for _, err := range []error{
		os.Chmod(filepath.Join(dir, "LICENSE"), 0o644), os.Symlink("macvlan", filepath.Join(dir, "alias")), os.Symlink("/bin/sh", filepath.Join(dir, "out")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	v.take(t, "reference")
	if v.read("reference", "alias") != "plugin" || v.read("reference", "LICENSE") != "" || v.read("reference", "out") != "" {
		t.Errorf("alias %q, LICENSE %q, out %q", v.read("reference", "alias"), v.read("reference", "LICENSE"), v.read("reference", "out"))
	}
}

func TestCopyRefuses(t *testing.T) {
	v := newVolumes(t)
	v.put(t, "empty", nil)
	for name, want := range map[string]string{"absent": "volume of type image", "empty": "subPath"} {
		if _, err := v.copy(name); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := executable(v.root, "/elsewhere"); err == nil || !strings.Contains(err.Error(), "--state-dir") {
		t.Errorf("a state directory that is not the host's: %v", err)
	}
	many := map[string]string{}
	for i := range maxPrograms + 1 {
		many[fmt.Sprint("plugin-", i)] = "plugin"
	}
	v.put(t, "many", many)
	if _, err := v.copy("many"); err == nil || !strings.Contains(err.Error(), "more than 200 executable files") || v.copies("many") != 0 {
		t.Errorf("too many plugins: %v", err)
	}
	v.put(t, "sparse", map[string]string{"plugin": "plugin"})
	if err := os.Truncate(filepath.Join(v.dir, "sparse", "plugin"), hugeFile); err != nil {
		t.Fatal(err)
	}
	if _, err := v.copy("sparse"); err == nil || !strings.Contains(err.Error(), "1024 MiB") || v.copies("sparse") != 0 {
		t.Errorf("a huge plugin: %v", err)
	}
	v.put(t, "reference", map[string]string{"macvlan": "plugin"})
	v.refusesOn(t, unix.MS_NOEXEC, "size=128m", "noexec")
	v.refusesOn(t, 0, "size=32m", "32 MiB free")
	if v.copies("reference") != 0 {
		t.Error("a copy without room is left")
	}
}

// refusesOn checks the error where the state directory is on a tmpfs.
func (v volumes) refusesOn(t *testing.T, flags uintptr, options, want string) {
	t.Helper()
	if err := unix.Mount("none", v.root+"/var/lib", "tmpfs", flags, options); err != nil {
		t.Skipf("mounting needs root: %v", err)
	}
	defer func() {
		if err := unix.Unmount(v.root+"/var/lib", 0); err != nil {
			t.Error(err)
		}
	}()
	if _, err := v.copy("reference"); err == nil || !strings.Contains(err.Error(), want) || v.copies("reference") > 1 {
		t.Errorf("on a tmpfs with %s: %v", options, err)
	}
}

// TestPluginsOfAnImage checks that the order of directories decides what runs, that plugins find those of an image for
// themselves, and that an ADD returns the files with their digests.
func TestPluginsOfAnImage(t *testing.T) {
	v := newVolumes(t)
	answer := `cat >/dev/null; [ "$CNI_COMMAND" != ADD ] || echo '{"cniVersion":"1.1.0","dns":{"domain":"'$0'"}}'`
	delegates := "#!/bin/sh\nIFS=:; for d in $CNI_PATH; do [ ! -x $d/addresses ] || exec $d/addresses; done; exit 1"
	v.put(t, "reference", map[string]string{"main": delegates, "addresses": "#!/bin/sh\n" + answer})
	v.take(t, "reference")
	w := newWorld(t)
	w.plugin(t, "main", answer)
	s := attachment.Sandbox{ID: "s", NetNS: "/proc/self/ns/net"}
	a := attachment.Attachment{CNIName: "n", Interface: "net1", Conflist: []byte(`{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"main","ipam":{"type":"addresses"}}]}`)}
	image := filepath.Join(v.root+v.images, "reference", current)
	for _, tt := range []struct {
		dirs []string
		ran  string
		used []string
	}{
		{[]string{image, w.bin}, image + "/addresses", []string{"/main", "/addresses"}},
		{[]string{w.bin, image}, w.bin + "/main", []string{w.bin + "/main", "/addresses"}},
	} {
		w.dirs = tt.dirs
		added, err := w.Add(t.Context(), s, a, nil)
		if err != nil {
			t.Fatal(err)
		}
		if added.Result.DNS.Domain != tt.ran {
			t.Errorf("%s ran, not %s", added.Result.DNS.Domain, tt.ran)
		}
		if len(added.Plugins) != len(tt.used) {
			t.Fatalf("used: %q", added.Plugins)
		}
		for i, used := range added.Plugins {
			path, digest, _ := strings.Cut(used, "@sha256:")
			if !strings.HasSuffix(path, tt.used[i]) || strings.Contains(path, current) || len(digest) != 64 {
				t.Errorf("%s is not %s", used, tt.used[i])
			}
		}
	}
}

// TestDigestIsRemembered checks that a file's digest is computed once, and again after the file was replaced.
func TestDigestIsRemembered(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "plugin")
	write := func(content string) string {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		got, err := w.digestOf(path)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := write("one")
	known, _ := w.digests.Load(path)
	w.digests.Store(path, digested{known.(digested).file, "remembered"})
	if got, _ := w.digestOf(path); got != "remembered" {
		t.Errorf("computed again: %s", got)
	}
	if second := write("two"); second == first || second == "remembered" {
		t.Errorf("a new file of the same size has %s", second)
	}
}

// TestUsedLeavesOutHugePlugins checks that an ADD does not read a plugin of terabytes for its digest.
func TestUsedLeavesOutHugePlugins(t *testing.T) {
	w := newWorld(t)
	w.plugin(t, "p", "cat >/dev/null; echo '"+result+"'; exit 0")
	if err := os.Truncate(filepath.Join(w.bin, "p"), hugeFile); err != nil {
		t.Fatal(err)
	}
	added, err := w.Add(t.Context(), sandbox, conflist("p"), nil)
	if err != nil || len(added.Plugins) != 0 {
		t.Errorf("%q, %v", added.Plugins, err)
	}
}

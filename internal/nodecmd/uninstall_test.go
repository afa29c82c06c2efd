package nodecmd

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// uninstallOf returns options for a host with files of nadra and of others.
func uninstallOf(t *testing.T) UninstallOptions {
	t.Helper()
	root := t.TempDir()
	for _, path := range []string{
		"var/lib/nadra/multus/00-multus.conf", "run/cdi/net.nadra.dev-gate_1.json", "run/cdi/gpu.json",
		"var/lib/kubelet/plugins/net.nadra.dev/dra.sock", "var/lib/kubelet/plugins/gpu/dra.sock",
		"var/lib/kubelet/plugins_registry/net.nadra.dev-reg.sock", "var/lib/kubelet/plugins_registry/gpu-reg.sock",
	} {
		path = filepath.Join(root, path)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/run", filepath.Join(root, "var/run")); err != nil {
		t.Fatal(err)
	}
	return UninstallOptions{Root: root, StateDir: "/var/lib/nadra", Patterns: []string{
		"/var/lib/kubelet/plugins/net.nadra.dev", "/var/lib/kubelet/plugins_registry/net.nadra.dev-reg.sock", "/var/run/cdi/net.nadra.dev-*",
	}}
}

// files returns the host's files, sorted.
func files(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			out = append(out, strings.TrimPrefix(path, root))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func TestUninstall(t *testing.T) {
	o := uninstallOf(t)
	before := files(t, o.Root)
	want := []string{
		"/var/lib/kubelet/plugins/net.nadra.dev", "/var/lib/kubelet/plugins_registry/net.nadra.dev-reg.sock", "/var/lib/nadra", "/var/run/cdi/net.nadra.dev-gate_1.json",
	}
	look := Uninstall(o)
	slices.Sort(look.Paths)
	if diff := cmp.Diff(want, look.Paths); diff != "" || look.Removed || look.Error != "" || !slices.Equal(before, files(t, o.Root)) {
		t.Errorf("looking: %+v\n%s", look, diff)
	}
	o.Remove = true
	if done := Uninstall(o); !done.Removed || done.Error != "" || len(done.Records) > 0 {
		t.Errorf("removing: %+v", done)
	}
	left := []string{"/run/cdi/gpu.json", "/var/lib/kubelet/plugins/gpu/dra.sock", "/var/lib/kubelet/plugins_registry/gpu-reg.sock"}
	if diff := cmp.Diff(left, files(t, o.Root)); diff != "" {
		t.Error(diff)
	}
	if again := Uninstall(o); !again.Removed || again.Error != "" || len(again.Paths) > 0 {
		t.Errorf("again: %+v", again)
	}
}

// A record keeps all files.
func TestRecordsKeep(t *testing.T) {
	o := uninstallOf(t)
	o.Remove = true
	store, _, err := drivertest.OpenStore(filepath.Join(o.Root, o.StateDir), "boot")
	if err != nil {
		t.Fatal(err)
	}
	err = store.Put([]attachment.Prepared{{
		Claim: attachment.ClaimRef{Namespace: "core", Name: "net", UID: "uid"}, Pod: attachment.PodRef{Namespace: "core", Name: "upf-0", UID: "pod"}, Request: "r",
	}})
	if err != nil {
		t.Fatal(err)
	}
	before := files(t, o.Root)
	r := Uninstall(o)
	if len(r.Records) != 1 || r.Records[0].PendingDEL || r.Records[0].Pod != "core/upf-0" || r.Records[0].Claim != "core/net" || r.Removed || !slices.Equal(before, files(t, o.Root)) {
		t.Errorf("%+v", r)
	}
}

// A pending DEL is marked, because its pod is gone.
func TestPendingDELKeeps(t *testing.T) {
	o := uninstallOf(t)
	store, _, err := drivertest.OpenStore(filepath.Join(o.Root, o.StateDir), "boot")
	if err != nil {
		t.Fatal(err)
	}
	pod := attachment.PodRef{Namespace: "core", Name: "upf-0", UID: "pod"}
	err = store.Put([]attachment.Prepared{{
		Claim: attachment.ClaimRef{Namespace: "core", Name: "net", UID: "uid"}, Pod: pod, Request: "r",
	}})
	if err != nil {
		t.Fatal(err)
	}
	key := store.All()[0].Key()
	err = errors.Join(store.MarkAttaching([]checkpoint.Key{key}, attachment.Sandbox{ID: "s", NetNS: "/run/netns/s", Pod: pod}, nil), store.DeferDEL(key, errors.New("no daemon")))
	if err != nil {
		t.Fatal(err)
	}
	r := Uninstall(o)
	last := len(r.Records) - 1
	if last < 0 || !r.Records[last].PendingDEL || !strings.Contains(r.Records[last].What, "no daemon") {
		t.Errorf("%+v", r)
	}
}

func TestUninstallWhileDriverRuns(t *testing.T) {
	o := uninstallOf(t)
	o.Remove = true
	dir, err := os.Open(filepath.Join(o.Root, o.StateDir))
	if err == nil {
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	before := files(t, o.Root)
	if r := Uninstall(o); r.Removed || reason.In(r.Error) != reason.DriverRunning || !slices.Equal(before, files(t, o.Root)) {
		t.Errorf("%+v", r)
	}
}

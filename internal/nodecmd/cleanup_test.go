package nodecmd

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// plugin logs its command and its container.
const plugin = "#!/bin/sh\ncat > /dev/null\necho \"$CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME $CNI_NETNS\" >> \"$(dirname \"$0\")/calls\"\ntest ! -e \"$(dirname \"$0\")/broken\"\n"

func id(digit string) string { return strings.Repeat(digit, 64) }

// machine is a node in a temporary directory.
type machine struct {
	*testing.T
	dir string
	CleanupOptions
}

func newMachine(t *testing.T) *machine {
	m := &machine{T: t, dir: t.TempDir()}
	m.CleanupOptions = CleanupOptions{
		Root: "/", StateDir: m.dir + "/nadra", RuntimeDir: m.dir + "/cni", MultusDir: m.dir + "/cni/multus", BinDirs: []string{m.dir + "/bin"},
		LeaseDirs: []string{m.dir + "/cni/networks"},
		OlderThan: time.Minute, NetworkDirs: []string{m.dir + "/cni/networks/blue"},
		DELTimeout: time.Minute,
		Ready:      func() error { return nil },
		sandboxes:  func(context.Context) ([]string, error) { return []string{id("1")}, nil },
		vfs:        func() ([]probe.VF, error) { return nil, nil },
		addresses:  func() (inUse, error) { return inUse{}, nil },
	}
	m.write("bin/sample", plugin, 0)
	if err := os.Chmod(m.dir+"/bin/sample", 0o755); err != nil {
		t.Fatal(err)
	}
	return m
}

// write writes a file, and sets its age.
func (m *machine) write(path, content string, age time.Duration) string {
	m.Helper()
	path = filepath.Join(m.dir, path)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o600)
	}
	if err == nil {
		err = os.Chtimes(path, time.Now().Add(-age), time.Now().Add(-age))
	}
	if err != nil {
		m.Fatal(err)
	}
	return path
}

// cache writes an entry of libcni's cache.
func (m *machine) cache(dir, sandbox, netns string) string {
	m.Helper()
	conf := `{"cniVersion":"1.0.0","name":"blue","plugins":[{"type":"sample"}]}`
	text, err := json.Marshal(map[string]any{
		"kind": "cniCacheV1", "containerId": sandbox, "config": base64.StdEncoding.EncodeToString([]byte(conf)), "ifName": "net1", "networkName": "blue", "netns": netns,
	})
	if err != nil {
		m.Fatal(err)
	}
	return m.write(dir+"/results/blue-"+sandbox+"-net1", string(text), time.Hour)
}

func (m *machine) there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (m *machine) calls() string {
	text, err := os.ReadFile(m.dir + "/bin/calls")
	if err != nil && !os.IsNotExist(err) {
		m.Fatal(err)
	}
	return string(text)
}

func TestCleanup(t *testing.T) {
	m := newMachine(t)
	const leases = "cni/networks/blue/"
	gone := m.write(leases+"10.0.0.2", id("2")+"\r\nnet1", time.Hour)
	six := m.write(leases+"fd00::2", id("2")+"\nnet1", time.Hour)
	live := m.write(leases+"10.0.0.3", id("1")+"\r\nnet1", time.Hour)
	young := m.write(leases+"10.0.0.4", id("2")+"\r\nnet1", 0)
	m.write(leases+"last_reserved_ip.0", "10.0.0.4", time.Hour)
	foreign := m.write("cni/networks/podman/10.1.0.2", id("3"), time.Hour)
	lost := m.cache("cni/multus", id("2"), m.dir+"/netns/gone")
	alive := m.cache("cni/multus", id("4"), m.dir)
	runtimes := m.cache("cni", id("5"), "")
	note := m.write("cni/multus/"+id("2"), "[]", time.Hour)
	all := []string{gone, six, live, young, foreign, lost, alive, runtimes, note}

	want := map[string]probe.Action{
		gone: probe.ActionRelease, six: probe.ActionRelease, foreign: probe.ActionNone, lost: probe.ActionDEL, runtimes: probe.ActionNone, note: probe.ActionDelete,
	}
	found := Cleanup(t.Context(), m.CleanupOptions)
	same(t, "found", want, actions(found))
	for _, path := range all {
		if !m.there(path) {
			t.Fatalf("a run without Apply removed %s", path)
		}
	}
	if found.Refused != "" || len(found.Errors) > 0 || m.calls() != "" || found.Kept != 2 {
		t.Errorf("%+v, calls %q", found, m.calls())
	}

	m.Apply = true
	freed := Cleanup(t.Context(), m.CleanupOptions)
	for _, o := range freed.Orphans {
		if o.Done != (o.Action != probe.ActionNone) || o.Error != "" {
			t.Errorf("not freed: %+v", o)
		}
	}
	for _, path := range all {
		_, listed := want[path]
		if stays := !listed || want[path] == probe.ActionNone; m.there(path) != stays {
			t.Errorf("%s: it is there: %v", path, !stays)
		}
	}
	same(t, "calls", "DEL "+id("2")+" net1 \n", m.calls())
}

// After a failed DEL the files that its retry needs are kept, and everything else is freed.
func TestDELFails(t *testing.T) {
	m := newMachine(t)
	m.Apply = true
	m.write("bin/broken", "", 0)
	entry := m.cache("cni/multus", id("2"), "")
	note := m.write("cni/multus/"+id("2"), "[]", time.Hour)
	lease := m.write("cni/networks/blue/10.0.0.2", id("2"), time.Hour)
	r := Cleanup(t.Context(), m.CleanupOptions)
	if !m.there(entry) || !m.there(note) || m.there(lease) {
		t.Errorf("%+v", r)
	}
	for _, o := range r.Orphans {
		if o.Kind == probe.OrphanMultusCache && reason.In(o.Error) != reason.OtherDELFailed {
			t.Errorf("%s was kept for %q", o.Object, o.Error)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*machine)
		want   reason.Code
	}{
		"the runtime does not answer": {func(m *machine) {
			m.sandboxes = func(context.Context) ([]string, error) { return nil, errors.New("connection refused") }
		}, reason.SandboxesUnknown},
		"a record is damaged": {func(m *machine) { m.write("nadra/claims/c.json", "{", time.Hour) }, reason.CheckpointUnreadable},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.Apply = true
			lease := m.write("cni/networks/blue/10.0.0.2", id("2"), time.Hour)
			tt.change(m)
			if r := Cleanup(t.Context(), m.CleanupOptions); reason.In(r.Refused) != tt.want || len(r.Orphans) > 0 || !m.there(lease) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// nadra's own attachments are left to a running driver.
func TestDriverRuns(t *testing.T) {
	m := newMachine(t)
	entry := m.cache("nadra/cni", id("2"), "")
	driver, err := os.Open(m.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	if err := unix.Flock(int(driver.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	same(t, "while it runs", map[string]probe.Action{entry: probe.ActionNone}, actions(Cleanup(t.Context(), m.CleanupOptions)))
	if err := unix.Flock(int(driver.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	same(t, "afterwards", map[string]probe.Action{entry: probe.ActionDEL}, actions(Cleanup(t.Context(), m.CleanupOptions)))
}

// An address that was assigned to another sandbox meanwhile is not released.
func TestLeaseOfAnother(t *testing.T) {
	m := newMachine(t)
	path := m.write("cni/networks/blue/10.0.0.2", id("7")+"\r\nnet1", 0)
	if there, err := releaseLease(path, id("2")); err == nil || there || !m.there(path) {
		t.Errorf("released: %v, %v", there, err)
	}
	if there, err := releaseLease(filepath.Join(filepath.Dir(path), "10.0.0.9"), id("2")); err != nil || there {
		t.Errorf("one that is gone: %v, %v", there, err)
	}
}

// host-local and its lock are respected: an address is not released while it
// holds the lock.
func TestLocked(t *testing.T) {
	m := newMachine(t)
	path := m.write("cni/networks/blue/10.0.0.2", id("2"), 0)
	lock, err := os.Open(m.write("cni/networks/blue/lock", "", 0))
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := releaseLease(path, id("2"))
		done <- err
	}()
	m.write("cni/networks/blue/10.0.0.2", id("8"), 0) // host-local gives it to another
	lock.Close()
	if err := <-done; err == nil || !m.there(path) {
		t.Errorf("it was released: %v", err)
	}
}

func actions(r probe.OrphanReport) map[string]probe.Action {
	out := map[string]probe.Action{}
	for _, o := range r.Orphans {
		out[o.Object] = o.Action
	}
	return out
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

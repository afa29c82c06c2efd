package checkpoint_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// A power cut may leave a change torn that was not synced before the call returned.
func TestPowerCutAfterAChangeThatIsNotSynced(t *testing.T) {
	whole := func(latest []byte) []byte { return latest }
	for name, tt := range map[string]struct {
		left func(latest []byte) []byte
		want checkpoint.Phase
	}{
		"the new file":       {whole, checkpoint.Attached},
		"the new file, torn": {func(latest []byte) []byte { return latest[:len(latest)/2] }, checkpoint.Attaching},
		"an empty file":      {func([]byte) []byte { return nil }, checkpoint.Attaching},
		"zeros":              {func(latest []byte) []byte { return make([]byte, len(latest)) }, checkpoint.Attaching},
	} {
		t.Run(name, func(t *testing.T) {
			dir, cut := t.TempDir(), t.TempDir()
			s := open(t, dir)
			keys := put(t, s, prepared("a", "web", "net1", 0))
			if err := s.MarkAttaching(keys, sandbox, nil); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "claims", "a-uid.json")
			onDisk := read(t, file)
			if err := s.MarkAttached(checkpoint.Added{Key: keys[0], Result: json.RawMessage(`{}`)}); err != nil {
				t.Fatal(err)
			}
			latest := read(t, file)
			open(t, cut)
			write(t, filepath.Join(cut, "claims", ".synced-a-uid"), onDisk)
			write(t, filepath.Join(cut, "claims", "a-uid.json"), tt.left(latest))
			for range 2 { // also a start that is cut off
				r := open(t, cut).ForClaim("a-uid")
				if len(r) != 1 || r[0].Phase != tt.want || !r[0].NeedsDEL() {
					t.Errorf("records %+v, want one that is %s and needs a DEL", r, tt.want)
				}
			}
			wantFiles(t, cut, "a-uid.json")
		})
	}
}

// While a change is being synced there is what was on disk before, and then no
// more; a change that is waited for, and the claim's end, take it away too.
func TestKeptFilesGo(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	keys := put(t, s, prepared("a", "web", "net1", 0))
	for range 50 {
		if err := s.MarkAttaching(keys, sandbox, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.MarkAttached(checkpoint.Added{Key: keys[0], Result: json.RawMessage(`{}`)}); err != nil {
			t.Fatal(err)
		}
		if err := s.MarkDetached(keys...); err != nil {
			t.Fatal(err)
		}
	}
	s.WaitSynced()
	wantFiles(t, dir, "a-uid.json")
	if err := s.MarkRefused(keys, "no"); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteClaim("a-uid", s.ForClaim("a-uid")[0].Pod.UID); err != nil {
		t.Fatal(err)
	}
	s.WaitSynced()
	wantFiles(t, dir)
	open(t, dir)
}

// A claim's new file is not the business of an older one's syncing.
func TestClaimsDoNotMixWhileTheyAreSynced(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	var keys []checkpoint.Key
	for _, claim := range []string{"a", "b", "c"} {
		keys = append(keys, put(t, s, prepared(claim, "web", claim, 0))...)
	}
	for i := range 30 {
		if err := s.MarkAttaching(keys, attachment.Sandbox{ID: "s", Cookie: uint64(i)}, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.MarkDetached(keys...); err != nil {
			t.Fatal(err)
		}
	}
	s.WaitSynced()
	wantFiles(t, dir, "a-uid.json", "b-uid.json", "c-uid.json")
}

// onFullDisk is in the environment of a process in which a test fills the disk.
const onFullDisk = "NADRA_TEST_FULL_DISK"

// fillDisk makes the kernel refuse every byte that this process writes to a file, until the returned function is
// called. It is for a process of the test's own: this one writes, too, for go test's cache.
func fillDisk(t *testing.T) (free func()) {
	t.Helper()
	signal.Ignore(unix.SIGXFSZ)
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	set := func(l unix.Rlimit) {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &l); err != nil {
			t.Fatal(err)
		}
	}
	set(unix.Rlimit{Cur: 0, Max: before.Max})
	return func() { set(before) }
}

// TestClaimOfAFullDiskStaysForgotten unprepares a claim whose detaching could not be recorded: no later
// start of the driver has its record again, whose device another pod may have by then.
func TestClaimOfAFullDiskStaysForgotten(t *testing.T) {
	if os.Getenv(onFullDisk) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), onFullDisk+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	dir := t.TempDir()
	s := open(t, dir)
	keys := put(t, s, prepared("a", "web", "net1", 0))
	if err := s.MarkAttaching(keys, sandbox, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.MarkAttached(checkpoint.Added{Key: keys[0], Result: json.RawMessage(`{}`)}); err != nil {
		t.Fatal(err)
	}
	s.WaitSynced()
	free := fillDisk(t)
	if err := s.MarkDetached(keys...); err == nil {
		t.Error("a full disk has taken a record")
	}
	if err := s.DeleteClaim("a-uid", s.ForClaim("a-uid")[0].Pod.UID); err != nil {
		t.Error(err)
	}
	free()
	if r := open(t, dir).All(); len(r) > 0 {
		t.Errorf("the next driver has %+v", r)
	}
	wantFiles(t, dir)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "claims"))
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if len(got) != len(want) {
		t.Fatalf("files %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("files %v, want %v", got, want)
		}
	}
}

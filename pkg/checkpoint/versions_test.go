package checkpoint_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// statesBefore returns the state directories of earlier versions.
func statesBefore(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("../../testdata/v*/state")
	if err != nil || len(dirs) < 2 {
		t.Fatalf("found only the states %q: %v", dirs, err)
	}
	return dirs
}

// copyState copies a state directory for a test.
func copyState(t *testing.T, of string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(of)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// contents returns all files below a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		out[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// phasesBefore are the phases of the records in each state, by the name of its version.
var phasesBefore = map[string]map[string]string{
	"v0.1.0-rc.1": {
		"new/net1": "Prepared", "half/net1": "Attaching", "refused/net1": "Prepared", "adopted/net1": "Attached",
		"by-hand-4/net1": "Attached", "by-hand-4/net2": "Attached", "unclaimed-2/net1": "Attached", "unclaimed-2/net2": "Attached",
	},
	"v0.1.0-rc.2": {
		"new/net1": "Prepared", "half/net1": "Attaching", "refused/net1": "Prepared", "web/net1": "Attached", "web/net2": "Attached",
		"routed/net1": "Attached", "slow/net1": "Prepared", "edited/net1": "Attaching", "function/net1": "Attached", "device/": "Prepared",
		"composed/net1": "Attached", "unclaimed/net1": "Attached", "adopted/net1": "Attached",
	},
}

// TestStateOfVersionBefore reads what earlier versions have written, whole: each file is the
// same after this version has read its records and written them again.
func TestStateOfVersionBefore(t *testing.T) {
	for _, before := range statesBefore(t) {
		s := open(t, copyState(t, before))
		phases := map[string]string{}
		for _, r := range s.All() {
			phases[r.Pod.Name+"/"+r.Attachment.Interface] = string(r.Phase)
		}
		if diff := cmp.Diff(phasesBefore[filepath.Base(filepath.Dir(before))], phases); diff != "" {
			t.Errorf("%s: phases (-want +got):\n%s", before, diff)
		}
		if dels := s.PendingDELs(); len(dels) != 1 || dels[0].Record.Pod.Name != "deferred" || dels[0].Cause != "the plugin does not answer" {
			t.Errorf("%s: pending DELs: %+v", before, dels)
		}
		for name, text := range contents(t, filepath.Join(before, "claims")) {
			records, version := s.ForClaim(strings.TrimSuffix(name, ".json")), 1
			if slices.ContainsFunc(records, func(r checkpoint.Record) bool { return r.Attachment.On != nil }) {
				version = 2
			}
			again, err := json.Marshal(map[string]any{"version": version, "records": records})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(indent(t, []byte(text)), indent(t, again)); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", before, name, diff)
			}
		}
	}
}

// TestLaterVersionIsRefused checks that a file of a later version is refused by its code, name and version,
// and that no file changes, whatever else is in the directory.
func TestLaterVersionIsRefused(t *testing.T) {
	for _, later := range []string{"claims/later-uid.json", "claims/.synced-later-uid", "pending-dels/0123456789abcdef0123456789abcdef.json"} {
		dir := copyState(t, statesBefore(t)[0])
		path := filepath.Join(dir, later)
		for file, text := range map[string]string{path: `{"version":3,"entries":[{"what":"is not known here"}]}`, filepath.Join(dir, "claims/damaged-uid.json"): "{"} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		before := contents(t, dir)
		_, _, err := checkpoint.Open(dir, "boot-1")
		if reason.Of(err) != reason.StateOfLaterVersion {
			t.Fatalf("%s: %v", later, err)
		}
		for _, want := range []string{path, "version 3", "up to 2", "nadra-node"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v lacks %q", later, err, want)
			}
		}
		if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
			t.Errorf("%s: files changed (-want +got):\n%s", later, diff)
		}
	}
}

// TestDevicesOfOthersHaveALaterVersion checks that a driver that reads version 1 refuses records with the device of
// another driver, which it would drop, and that this version reads them and all others keep version 1.
func TestDevicesOfOthersHaveALaterVersion(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	on := attachment.Attachment{On: &attachment.OtherDriverDevice{Driver: "nic.example.com", Pool: "node-1", Device: "nic-0"}}
	for uid, a := range map[string]attachment.Attachment{"on-uid": on, "plain-uid": {}} {
		if err := s.Put([]attachment.Prepared{{Claim: attachment.ClaimRef{UID: uid}, Attachment: a}}); err != nil {
			t.Fatal(err)
		}
		sandbox := attachment.Sandbox{ID: "sandbox-" + uid}
		for _, r := range s.ForClaim(uid) {
			if err := errors.Join(s.MarkAttaching([]checkpoint.Key{r.Key()}, sandbox, nil), s.DeferDEL(r.Key(), errors.New("busy"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.WaitSynced() // files have temporary names until then
	for path, text := range contents(t, dir) {
		if !strings.HasSuffix(path, ".json") {
			continue
		}
		want := `{"version":1,`
		if strings.Contains(text, "on-uid") {
			want = `{"version":2,`
		}
		if !strings.HasPrefix(text, want) {
			t.Errorf("%s: %.20s, want %s", path, text, want)
		}
	}
	again := open(t, dir)
	if got := again.ForClaim("on-uid"); len(got) != 1 || got[0].Attachment.On == nil || len(again.PendingDELs()) != 2 {
		t.Errorf("read %+v, and %d pending DELs", got, len(again.PendingDELs()))
	}
}

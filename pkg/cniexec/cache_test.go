package cniexec

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestEntryOf compares EntryOf with what libcni writes, which differs in the path of device information only,
// and checks that Forget removes it.
func TestEntryOf(t *testing.T) {
	w := newWorld(t)
	w.plugin(t, "p", `cat >/dev/null; echo '`+result+`'`)
	a := conflist("p")
	a.CNIArgs = [][2]string{{"IP", "10.1.0.5"}}
	a.CapabilityArgs = map[string]json.RawMessage{"ips": json.RawMessage(`["10.1.0.5/24"]`)}
	added, err := w.Add(t.Context(), sandbox, a, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(added.Result)
	if err != nil {
		t.Fatal(err)
	}
	want := EntryOf(sandbox, a, raw)
	path := filepath.Join(w.results(), want.Name())
	got, err := readCacheEntry(path)
	if err != nil {
		t.Fatal(err)
	}
	delete(got.CapabilityArgs, infoCapability)
	got.File, got.Written = "", time.Time{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-EntryOf +libcni):\n%s", diff)
	}
	for range 2 {
		if err := w.Forget(sandbox, a); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the entry that was forgotten: %v", err)
	}
}

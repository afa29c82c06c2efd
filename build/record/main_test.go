package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nadra-dev/nadra/test/support"
)

const events = `{"Action":"start","Package":"x/test/e2e"}
{"Action":"output","Package":"x/test/e2e","Output":"ran containerd 2.4.2\n"}
{"Action":"output","Package":"x/test/e2e","Output":"ran amd64\n"}
{"Action":"run","Package":"x/test/e2e","Test":"TestA"}
{"Action":"output","Package":"x/test/e2e","Test":"TestA","Output":"ran away\n"}
{"Action":"fail","Package":"x/test/e2e","Test":"TestA/part"}
{"Action":"pass","Package":"x/test/e2e","Test":"TestA"}
{"Action":"skip","Package":"x/test/e2e","Test":"TestB"}
{"Action":"output","Package":"x/test/dropin","Output":"ran containerd 2.4.2\n"}
{"Action":"fail","Package":"x/test/dropin"}
`

// TestRecord records a lane twice: the second run, of which a package fails without a failed
// test, replaces the first.
func TestRecord(t *testing.T) {
	for _, name := range chosenBy {
		t.Setenv(name, "")
	}
	t.Setenv("NADRA_CONTAINERD", "2.3")
	folder := t.TempDir()
	lane, runs := filepath.Join(folder, "e2e-core.json"), filepath.Join(folder, "runs.json")
	for path, content := range map[string]string{lane: events, runs: "[]\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for code, failures := range []int{0, 1} {
		if err := record(lane, code, runs, "abc"); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(runs)
		if err != nil {
			t.Fatal(err)
		}
		var got []support.Run
		if err := json.Unmarshal(content, &got); err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got[0].Lane != "e2e-core" || got[0].With != "NADRA_CONTAINERD=2.3" || got[0].Commit != "abc" || got[0].Date == "" ||
			got[0].Passed != 1 || got[0].Tests != 2 || got[0].Failures != failures || !slices.Equal(got[0].Ran, []string{"amd64", "containerd 2.4.2"}) {
			t.Errorf("with code %d: recorded %s", code, content)
		}
	}
}

// TestNothingRecorded checks that a lane without a cluster leaves the file alone, and that
// broken events are an error.
func TestNothingRecorded(t *testing.T) {
	lane := filepath.Join(t.TempDir(), "monitoring.json")
	for content, fails := range map[string]bool{`{"Action":"pass","Test":"TestA"}` + "\n": false, "{\n": true} {
		if err := os.WriteFile(lane, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := record(lane, 0, "/nonexistent/runs.json", "abc"); (err != nil) != fails {
			t.Errorf("%q: %v", content, err)
		}
	}
}

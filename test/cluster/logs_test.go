package cluster

import (
	"path/filepath"
	"testing"
)

// TestSaveLogs saves the logs of two clusters under the same name.
func TestSaveLogs(t *testing.T) {
	t.Setenv("NADRA_CACHE", t.TempDir())
	saved := map[string]bool{}
	for range 2 {
		c := newCluster(description{Options: Options{Dir: t.TempDir()}})
		if err := writeFile(filepath.Join(c.LogDir(), "node-1", "kubelet.log"), []byte(c.Dir())); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time replaces the first
			folder, err := c.SaveLogs("e2e")
			if err != nil {
				t.Fatal(err)
			}
			if text := readText(t, filepath.Join(folder, "node-1", "kubelet.log")); text != c.Dir() {
				t.Errorf("the log is %q, want %q", text, c.Dir())
			}
			saved[folder] = true
		}
	}
	if len(saved) != 2 {
		t.Errorf("the logs are in %v, want one folder for each cluster", saved)
	}
}

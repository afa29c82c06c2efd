package cluster

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDefaultDirFollowsTheCheckout checks that two checkouts have clusters of their own, and that a folder outside of
// any needs -dir.
func TestDefaultDirFollowsTheCheckout(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		root := t.TempDir()
		inside := filepath.Join(root, "test/cluster/components/kubernetes")
		if err := os.MkdirAll(inside, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(inside, "go.mod"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{root, inside} {
			t.Chdir(dir)
			run, err := DefaultDir()
			if err != nil {
				t.Fatal(err)
			}
			seen[run] = true
		}
	}
	if len(seen) != 2 {
		t.Errorf("two checkouts have %d run folders: %v", len(seen), seen)
	}
	t.Chdir(t.TempDir())
	if run, err := DefaultDir(); err == nil {
		t.Errorf("outside of a checkout it is %s", run)
	}
}

package surface

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPreviousIsTheNewestRelease checks that tests of updates use the newest release before this commit: test/skew/previous
// names its commit, and testdata has a folder of its files. It needs the history and its tags.
func TestPreviousIsTheNewestRelease(t *testing.T) {
	git := func(args ...string) string {
		command := exec.Command("git", args...)
		command.Dir = root
		out, err := command.Output()
		if err != nil {
			t.Skipf("git %s: %v: a tree without its history, or without tags", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out))
	}
	tag := git("describe", "--tags", "--abbrev=0", "--match=v*", "HEAD^")
	commit := git("rev-parse", tag+"^{commit}")
	if previous := strings.TrimSpace(goldenFile(t, "test/skew/previous")); previous != commit {
		t.Errorf("test/skew/previous names %s, and the newest release, %s, is %s", previous, tag, commit)
	}
	if _, err := os.Stat(filepath.Join(root, "testdata", tag, "state")); err != nil {
		t.Errorf("testdata lacks the files of %s, which testdata/v0.1.0-rc.2/README.md says how to make: %v", tag, err)
	}
}

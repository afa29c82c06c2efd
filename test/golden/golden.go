// Package golden compares what tests produce with recorded files. Every package
// whose tests import it has the flag -update, which rewrites them:
//
//	go test ./internal/desk/report -update
package golden

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Update reports whether the golden files are being rewritten.
func Update() bool { return *update }

// CheckPart fails the test unless the part of a file between two marks has exactly this content. With
// -update it writes the part instead.
func CheckPart(t testing.TB, path, begin, end, content string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, begins := strings.Cut(string(text), begin)
	_, tail, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no marks %q and %q", path, begin, end)
	}
	Check(t, path, head+begin+content+end+tail)
}

// Check fails the test unless the file has exactly this content. With -update it
// writes the file instead.
func Check(t testing.TB, path, content string) {
	t.Helper()
	recorded, err := os.ReadFile(path)
	if err == nil && string(recorded) == content {
		return
	}
	if *update {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err != nil {
		t.Fatalf("%v: go test -update writes the file", err)
	}
	t.Errorf("%s (-recorded +produced), go test -update rewrites it:\n%s", path, cmp.Diff(string(recorded), content))
}

package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TestConvertTooManyFiles names a folder of empty files so often that convert would read more files than it may. With the
// limit's number exactly, it has read all of them, and refuses that the folder is named twice.
func TestConvertTooManyFiles(t *testing.T) {
	const files = 2_000
	dir := t.TempDir()
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)+".yaml"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for folders, want := range map[int]string{maxFiles / files: "named twice", maxFiles/files + 1: "more than 50000 files"} {
		if refusal := refusedInPlace(t, slices.Repeat([]string{"-f", dir}, folders)); !strings.Contains(refusal, want) {
			t.Errorf("%d files: %q, want %q", folders*files, refusal, want)
		}
	}
}

// refusedInPlace returns what convert --in-place says when it refuses its input.
func refusedInPlace(t *testing.T, from []string) string {
	t.Helper()
	var stderr bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: &stderr}
	if code := Run(t.Context(), append([]string{"convert", "--in-place"}, from...), streams); code != CodeError {
		t.Errorf("exit code %d, want %d", code, CodeError)
	}
	return stderr.String()
}

// TestTooManyBytes lowers the limit, and reads a folder, and named files, that have a byte more.
func TestTooManyBytes(t *testing.T) {
	defer func(limit int) { maxTotal = limit }(maxTotal)
	maxTotal = 1 << 20
	dir := t.TempDir()
	one, other := filepath.Join(dir, "1.yaml"), filepath.Join(dir, "2.yaml")
	for path, size := range map[string]int{one: maxTotal - 1, other: 2} {
		if err := os.WriteFile(path, bytes.Repeat([]byte("\n"), size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range [][]string{{"-f", dir}, {"-f", one, "-f", other}} {
		if refusal := refusedInPlace(t, from); !strings.Contains(refusal, "more than 1 MiB together") {
			t.Errorf("%q: %q", from, refusal)
		}
	}
}

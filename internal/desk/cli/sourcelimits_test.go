package cli

import (
	"bytes"
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
		var stderr bytes.Buffer
		args := append([]string{"convert", "--in-place"}, slices.Repeat([]string{"-f", dir}, folders)...)
		code := Run(t.Context(), args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stderr, ErrOut: &stderr})
		if code != CodeError || !strings.Contains(stderr.String(), want) {
			t.Errorf("%d files: exit code %d, want %d and %q: %s", folders*files, code, CodeError, want, &stderr)
		}
	}
}

// TestTooManyBytes has one byte more than the limit in all files.
func TestTooManyBytes(t *testing.T) {
	if err := checkTotal(maxFiles, maxTotal); err != nil {
		t.Errorf("%d MiB are refused: %v", maxTotal>>20, err)
	}
	if err := checkTotal(maxFiles, maxTotal+1); err == nil {
		t.Errorf("a byte more than %d MiB is accepted", maxTotal>>20)
	}
}

package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"
)

var fixedTime = time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)

func build(t *testing.T, args ...string) {
	t.Helper()
	if err := run(args); err != nil {
		t.Fatalf("mkimage %q: %v", args, err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// list describes every member of a tar as "name mode" or "name mode -> target".
func list(t *testing.T, content io.Reader) []string {
	t.Helper()
	var members []string
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return members
		}
		if err != nil {
			t.Fatal(err)
		}
		member := fmt.Sprintf("%s %o", header.Name, header.Mode)
		if header.Linkname != "" {
			member += " -> " + header.Linkname
		}
		members = append(members, member)
	}
}

//go:build e2e

package vm

import (
	"context"
	"os"
	"testing"
)

func TestTry(t *testing.T) {
	dir := t.TempDir()
	l, err := Start(context.Background(), dir, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Stop(context.Background())
	n, err := l.Guest.Net(context.Background())
	t.Logf("%+v %v", n, err)
	s, err := l.Guest.Sysfs(context.Background())
	t.Log(err)
	os.WriteFile("/tmp/vmlab/sysfs.txt", []byte(s), 0o644)
}

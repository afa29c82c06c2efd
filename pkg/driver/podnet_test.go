package driver

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Only a namespace that is surely gone is reported so: its DEL frees addresses.
func TestLook(t *testing.T) {
	root := t.TempDir()
	// A file on which a namespace was mounted stays when it is unmounted.
	if err := os.WriteFile(filepath.Join(root, "leftover"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inRoot := &podNet{hostRoot: root}
	for _, path := range []string{"/absent", "/leftover"} {
		if _, err := inRoot.look(path); !errors.Is(err, errNoNamespace) {
			t.Errorf("%s: %v", path, err)
		}
	}
	here, err := (&podNet{hostRoot: "/"}).look("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	if here.cookie == 0 || len(here.links) == 0 {
		t.Errorf("our own: %+v", here)
	}
}

package driver

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// In a cluster whose first family is IPv6 the kernel's order is not the pod's.
func TestInRuntimeOrder(t *testing.T) {
	for _, tt := range []struct{ ips, runtime, want []string }{
		{[]string{"10.0.0.5", "fd00::5"}, []string{"fd00::5", "10.0.0.5"}, []string{"fd00::5", "10.0.0.5"}},
		{[]string{"10.0.0.9", "10.0.0.5", "fd00::5"}, []string{"10.0.0.5"}, []string{"10.0.0.5", "10.0.0.9", "fd00::5"}},
		{[]string{"10.0.0.5", "fd00::5"}, nil, []string{"10.0.0.5", "fd00::5"}},
	} {
		inRuntimeOrder(tt.ips, tt.runtime)
		same(t, "order", tt.want, tt.ips)
	}
}

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

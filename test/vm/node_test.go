//go:build e2e

package vm

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

var update = flag.Bool("update", false, "write testdata/sysfs/igb-vm.txt from the guest")

func TestNode(t *testing.T) {
	ctx, cancel := context.WithTimeout(interrupted, 10*time.Minute)
	defer cancel()
	testCase(t, "a virtual machine is a node of the cluster", func(t *testing.T) {
		node, err := theLane.Kube.CoreV1().Nodes().Get(ctx, theLane.Guest.Name(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		kernel, err := theLane.Guest.Run(ctx, "cat", "/proc/sys/kernel/osrelease")
		if err != nil {
			t.Fatal(err)
		}
		if got := node.Status.NodeInfo.KernelVersion; got != strings.TrimSpace(kernel) || !strings.Contains(got, "+deb12-amd64") {
			t.Errorf("the node's kernel is %q, the guest's %q, and it is to be Debian's", got, kernel)
		}
	})
	testCase(t, "sysfs is as it was recorded", checkSysfs)
}

// checkSysfs compares the recorded sysfs, which other tests read, with the guest's.
// Addresses of virtual functions are random at each boot.
func checkSysfs(t *testing.T) {
	recorded, seen := filepath.Join(lab.Root(), "testdata/sysfs/igb-vm.txt"), theLane.Sysfs
	if *update {
		if err := os.MkdirAll(filepath.Dir(recorded), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(recorded, []byte(seen), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stable(string(want)), stable(seen)); diff != "" {
		t.Errorf("testdata/sysfs/igb-vm.txt differs from the guest; write it with -update (-recorded +guest):\n%s", diff)
	}
}

// stable removes values that differ between boots or kernels.
func stable(record string) []string {
	var out []string
	for line := range strings.Lines(record) {
		path, value, found := strings.Cut(strings.TrimSpace(line), " = ")
		if found {
			switch filepath.Base(path) {
			case "address", "ifindex", "iflink", "node_guid", "sys_image_guid", "addr_assign_type", "operstate":
				value = "…"
			case "uevent":
				value, _, _ = strings.Cut(value, "IFINDEX=")
			}
			path += " = " + value
		}
		out = append(out, path)
	}
	return out
}

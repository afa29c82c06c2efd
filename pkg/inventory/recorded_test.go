package inventory

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The tree that the virtual machine lane records of its guest, in which each boot
// must be as recorded: two igb cards with four VFs each, the first two of them
// with a soft RoCE device, on two NUMA nodes and PCIe roots.
func TestReadRecordedGuest(t *testing.T) {
	text, err := os.ReadFile("../../testdata/sysfs/igb-vm.txt")
	if err != nil {
		t.Fatal(err)
	}
	tr := newTree(t)
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) != "" && line[0] != '#' {
			tr.add("sys/" + line)
		}
	}
	var got []string
	for _, f := range tr.read(Kernel{}).Functions {
		name := ""
		if len(f.Netdevs) == 1 {
			name = f.Netdevs[0].Name
		}
		got = append(got, fmt.Sprintf("%s %s %s %s numa %d %s pf %s %d rdma %d", f.ID, f.Kind, name, f.Driver, f.NUMANode, f.PCIeRoot, f.PFName(), f.Index, len(f.RDMA)))
	}
	want := []string{
		"0000:00:02.0 nic eth0 virtio-pci numa -1 pci0000:00 pf  -1 rdma 0",
		"0000:21:00.0 pf pf0 igb numa 0 pci0000:20 pf  -1 rdma 0",
		"0000:21:10.0 vf pf0v0 igbvf numa 0 pci0000:20 pf pf0 0 rdma 1",
		"0000:21:10.2 vf pf0v1 igbvf numa 0 pci0000:20 pf pf0 1 rdma 1",
		"0000:21:10.4 vf pf0v2 igbvf numa 0 pci0000:20 pf pf0 2 rdma 0",
		"0000:21:10.6 vf pf0v3 igbvf numa 0 pci0000:20 pf pf0 3 rdma 0",
		"0000:41:00.0 pf pf1 igb numa 1 pci0000:40 pf  -1 rdma 0",
		"0000:41:10.0 vf pf1v0 igbvf numa 1 pci0000:40 pf pf1 0 rdma 1",
		"0000:41:10.2 vf pf1v1 igbvf numa 1 pci0000:40 pf pf1 1 rdma 1",
		"0000:41:10.4 vf pf1v2 igbvf numa 1 pci0000:40 pf pf1 2 rdma 0",
		"0000:41:10.6 vf pf1v3 igbvf numa 1 pci0000:40 pf pf1 3 rdma 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
}

package inventory

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// tree is a host's /sys and /dev in compact form, one line for each file:
//
//	path -> target     a symbolic link, as sysfs has it: relative, or within the
//	                   tree (/devices/…), which is then made relative
//	path = value       a file with a newline at its end
//	path/              a directory
//
// Lines that begin with # are remarks. Paths begin with sys/ or dev/.
type tree struct {
	t   testing.TB
	dir string
}

// newTree is in memory where it can be, as sysfs is.
func newTree(t testing.TB) tree {
	dir, err := os.MkdirTemp("/dev/shm", "nadra-inventory-")
	if err != nil {
		return tree{t, t.TempDir()}
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return tree{t, dir}
}

// recorded makes the tree of a file in testdata.
func recorded(t testing.TB, name string) tree {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	tr := newTree(t)
	tr.add(string(text))
	return tr
}

// reader returns a reader of the tree. It adds the functions that a Kernel with some of them lacks.
func (tr tree) reader(k Kernel) Reader {
	if own := reflect.ValueOf(&k).Elem(); !own.IsZero() {
		for i := range own.NumField() {
			if own.Field(i).IsNil() {
				own.Field(i).Set(reflect.ValueOf(noKernel).Field(i))
			}
		}
	}
	return Reader{Sys: filepath.Join(tr.dir, "sys"), Dev: filepath.Join(tr.dir, "dev"), Kernel: k}
}

func (tr tree) read(k Kernel) Inventory {
	tr.t.Helper()
	inventory, err := tr.reader(k).Read()
	if err != nil {
		tr.t.Fatal(err)
	}
	return inventory
}

func (tr tree) add(text string) {
	tr.t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := tr.entry(line); err != nil {
			tr.t.Fatalf("%s: %v", line, err)
		}
	}
}

func (tr tree) entry(line string) error {
	if path, target, ok := strings.Cut(line, " -> "); ok {
		return tr.symlink(path, target)
	}
	path, value, isFile := strings.Cut(line, " = ")
	path = filepath.Join(tr.dir, path)
	if !isFile {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(value+"\n"), 0o644)
}

func (tr tree) symlink(path, target string) error {
	path = filepath.Join(tr.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if strings.HasPrefix(target, "/") {
		var err error
		if target, err = filepath.Rel(filepath.Dir(path), filepath.Join(tr.dir, "sys", target)); err != nil {
			return err
		}
	}
	return os.Symlink(target, path)
}

func (tr tree) remove(path string) {
	tr.t.Helper()
	if err := os.RemoveAll(filepath.Join(tr.dir, path)); err != nil {
		tr.t.Fatal(err)
	}
}

// pci adds a PCI function at /devices/<root>/<parents…>/<address>.
func (tr tree) pci(path, class, vendor, device, driver string, numa int) string {
	address := filepath.Base(path)
	dir := "sys/devices/" + path
	tr.add(fmt.Sprintf("%[1]s/class = %[2]s\n%[1]s/vendor = %[3]s\n%[1]s/device = %[4]s\n%[1]s/numa_node = %[5]d\n"+
		"sys/bus/pci/devices/%[6]s -> /devices/%[7]s", dir, class, vendor, device, numa, address, path))
	if driver != "" {
		tr.add(dir + "/driver -> /bus/pci/drivers/" + driver + "\nsys/bus/pci/drivers/" + driver + "/")
	}
	return dir
}

// net adds an interface to a device's directory.
func (tr tree) net(dir, name, mac, operstate string) {
	tr.add(fmt.Sprintf("%[1]s/net/%[2]s/address = %[3]s\n%[1]s/net/%[2]s/type = 1\n%[1]s/net/%[2]s/flags = 0x1003\n"+
		"%[1]s/net/%[2]s/operstate = %[4]s\nsys/class/net/%[2]s -> /%[5]s/net/%[2]s",
		dir, name, mac, operstate, strings.TrimPrefix(dir, "sys/")))
}

// manyVFs makes a host of pfs cards with vfs functions each; every other is
// bound to vfio-pci, and the others have an interface and an RDMA device.
func manyVFs(t testing.TB, pfs, vfs int) tree {
	tr := newTree(t)
	for p := range pfs {
		root := fmt.Sprintf("pci0000:%02x/0000:%02x:00.0/", 0x10*(p+1)-1, 0x10*(p+1)-1)
		pf := fmt.Sprintf("0000:%02x:00.0", 0x10*(p+1))
		dir := tr.pci(root+pf, "0x020000", "0x15b3", "0x101d", "mlx5_core", p%2)
		tr.net(dir, fmt.Sprintf("ens%dnp0", p), fmt.Sprintf("0c:42:a1:00:%02x:00", p), "up")
		tr.add(fmt.Sprintf("%[1]s/sriov_totalvfs = %[2]d\n%[1]s/sriov_numvfs = %[2]d", dir, vfs))
		for v := range vfs {
			tr.vf(dir, root, pf, p, v)
		}
	}
	return tr
}

func (tr tree) vf(pfDir, root, pf string, p, v int) {
	n := v + 2 // routing IDs follow the PF's
	address := fmt.Sprintf("0000:%02x:%02x.%d", 0x10*(p+1)+n/256, n%256/8, n%8)
	driver := "mlx5_core"
	if v%2 == 1 {
		driver = "vfio-pci"
	}
	dir := tr.pci(root+address, "0x020000", "0x15b3", "0x101e", driver, p%2)
	tr.add(fmt.Sprintf("%[1]s/physfn -> /devices/%[2]s\n%[3]s/virtfn%[4]d -> /devices/%[5]s", dir, root+pf, pfDir, v, root+address))
	if driver == "vfio-pci" {
		tr.add(fmt.Sprintf("%[1]s/iommu_group -> /kernel/iommu_groups/%[2]d\nsys/kernel/iommu_groups/%[2]d/", dir, 1000*p+v))
		return
	}
	tr.net(dir, fmt.Sprintf("ens%dv%d", p, v), fmt.Sprintf("0c:42:a1:01:%02x:%02x", p, v), "down")
	tr.add(fmt.Sprintf("%[1]s/infiniband/mlx5_%[2]d/\n%[1]s/infiniband_verbs/uverbs%[2]d/ibdev = mlx5_%[2]d", dir, 1000*p+v))
}

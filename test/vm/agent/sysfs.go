package main

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// recordSysfs writes what sysfs says about network cards: a line for each folder ("path/"),
// link ("path -> target") and small file ("path = value"), with paths below root. It leaves
// out values that change by themselves.
func recordSysfs(out io.Writer, root string) error {
	r := recorder{root: root, entries: map[string]string{}}
	for _, pattern := range []string{"bus/pci/devices/*", "class/net/*", "class/infiniband/*", "class/infiniband_verbs/*", "kernel/iommu_groups/*/devices/*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			if err := r.start(path); err != nil {
				return err
			}
		}
	}
	for _, path := range r.cards {
		if err := r.tree(path); err != nil {
			return err
		}
	}
	return r.write(out)
}

type recorder struct {
	root    string
	entries map[string]string // path below root → the rest of its line
	cards   []string          // device folders to be recorded as a whole
}

// networkClass begins the class of PCI network controllers.
const networkClass = "0x02"

// start records an entry of a class or bus, and the whole device to which it leads if that
// is a network card.
func (r *recorder) start(path string) error {
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSymlink {
		return err // such as bonding_masters
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	class, err := os.ReadFile(filepath.Join(target, "class"))
	isPCI := err == nil
	if isPCI && !strings.HasPrefix(string(class), networkClass) {
		return nil
	}
	if err := r.link(path); err != nil {
		return err
	}
	r.cards = append(r.cards, target)
	return nil
}

func (r *recorder) link(path string) error {
	target, err := os.Readlink(path)
	if err != nil {
		return err
	}
	r.entries[r.below(path)] = " -> " + target
	return nil
}

func (r *recorder) below(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, r.root), "/")
}

// skipped has folders without interest, or with values that change.
var skipped = []string{
	"power", "statistics", "queues", "msi_irqs", "hw_counters", "counters", "gid_attrs", "gids", "pkeys",
	"phys_port_id", "wakeup", "cm_rx_duplicates", "ptp", "i2c-0", "i2c-1", "hwmon", "virtio0", "virtio1",
}

// kept has the files that a reader of network cards may read.
var kept = []string{
	"address", "addr_assign_type", "class", "dev_id", "dev_port", "device", "fw_ver", "ifindex", "iflink", "link_layer",
	"max_link_width", "max_link_speed", "mtu", "node_desc", "node_guid", "node_type", "numa_node", "operstate", "phys_port_name",
	"phys_state", "phys_switch_id", "rate", "revision", "sriov_drivers_autoprobe", "sriov_numvfs", "sriov_offset",
	"sriov_stride", "sriov_totalvfs", "sriov_vf_device", "state", "subsystem_device", "subsystem_vendor", "sys_image_guid",
	"type", "uevent", "vendor", "ibdev", "driver_override", "local_cpulist",
}

func (r *recorder) tree(top string) error {
	return filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir():
			if path != top && slices.Contains(skipped, entry.Name()) {
				return fs.SkipDir
			}
			r.entries[r.below(path)] = "/"
		case entry.Type() == fs.ModeSymlink:
			return r.link(path)
		case slices.Contains(kept, entry.Name()):
			r.file(path)
		}
		return nil
	})
}

// file records a file with one value, unless it cannot be read, as many cannot.
func (r *recorder) file(path string) {
	content, err := os.ReadFile(path)
	if err != nil {
		return
	}
	value := strings.ReplaceAll(strings.TrimRight(string(content), "\n"), "\n", "\\n")
	r.entries[r.below(path)] = " = " + value
}

func (r *recorder) write(out io.Writer) error {
	paths := make([]string, 0, len(r.entries))
	for path := range r.entries {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	w := bufio.NewWriter(out)
	for _, path := range paths {
		fmt.Fprintln(w, path+r.entries[path])
	}
	return w.Flush()
}

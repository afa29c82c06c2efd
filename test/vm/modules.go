package vm

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// modules are loaded at boot, in this order, each after its dependencies. The guest loads
// no other modules. The uplink's comes first, so that the uplink is eth0.
var modules = []string{
	"virtio_net", "virtio_blk", "ext4", "crc32c_generic",
	"overlay", "bridge", "veth", "nf_tables", "xfrm_user",
	"igb", "igbvf", "vfio_pci", "vfio_iommu_type1",
	"macvlan", "ipvlan", "8021q", "dummy", "bonding", "vrf",
	// The parts of rules of the older iptables. The kernel would load a missing table by
	// modprobe, which the guest does not have.
	"iptable_filter", "iptable_nat", "xt_tcpudp", "xt_comment", "xt_addrtype", "xt_multiport", "xt_mark",
	"xt_conntrack", "xt_nat", "xt_MASQUERADE",
	// The parts of bandwidth's limits.
	"ifb", "sch_tbf", "sch_ingress", "cls_u32", "act_mirred",
	// Without it the kernel refuses a soft RoCE device as "no such file".
	"crc32_generic",
	"ib_uverbs", "ib_umad", "rdma_ucm", "rdma_rxe", "lanerdma",
}

// moduleParameters prevent modules from creating interfaces.
var moduleParameters = map[string]string{"dummy": "numdummies=0", "bonding": "max_bonds=0", "ifb": "numifbs=0"}

// collectModules copies the modules and their dependencies, decompressed, and writes the
// list in which they are loaded, with their parameters.
func collectModules(ctx context.Context, from, into string) error {
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	c := &collector{into: into, paths: map[string]string{}, seen: map[string]bool{}}
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		name, _, found := strings.Cut(entry.Name(), ".ko")
		if err == nil && found && entry.Type().IsRegular() {
			c.paths[moduleName(name)] = path
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, name := range modules {
		if err := c.add(ctx, name); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(into, "order"), []byte(strings.Join(c.order, "\n")+"\n"), 0o644)
}

// moduleName returns the name by which modules refer to each other; the names of their
// files may have hyphens.
func moduleName(name string) string { return strings.ReplaceAll(name, "-", "_") }

type collector struct {
	into  string
	paths map[string]string
	seen  map[string]bool
	order []string
}

func (c *collector) add(ctx context.Context, name string) error {
	name = moduleName(name)
	if c.seen[name] {
		return nil
	}
	c.seen[name] = true
	path, ok := c.paths[name]
	if !ok {
		return fmt.Errorf("the kernel has no module %s", name)
	}
	content, err := readModule(ctx, path)
	if err != nil {
		return fmt.Errorf("reading module %s: %w", name, err)
	}
	needed, err := dependencies(content)
	if err != nil {
		return fmt.Errorf("reading the dependencies of module %s: %w", name, err)
	}
	for _, other := range needed {
		if err := c.add(ctx, other); err != nil {
			return fmt.Errorf("for module %s: %w", name, err)
		}
	}
	c.order = append(c.order, strings.TrimSpace(name+" "+moduleParameters[name]))
	return os.WriteFile(filepath.Join(c.into, name+".ko"), content, 0o644)
}

func readModule(ctx context.Context, path string) ([]byte, error) {
	if !strings.HasSuffix(path, ".xz") {
		return os.ReadFile(path)
	}
	content, err := run(ctx, "", "xz", "-dc", path)
	return []byte(content), err
}

// dependencies returns the modules that a module declares as its dependencies.
func dependencies(module []byte) ([]string, error) {
	file, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, err
	}
	section := file.Section(".modinfo")
	if section == nil {
		return nil, errors.New("it has no section .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for field := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := strings.CutPrefix(string(field), "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}

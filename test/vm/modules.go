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

// modules are loaded at boot, in this order, each after those it depends on:
// nothing is loaded by itself in the guest. The uplink comes first, so that it
// is eth0.
var modules = []string{
	"virtio_net", "virtio_blk", "ext4", "crc32c_generic",
	"overlay", "bridge", "veth", "nf_tables", "xfrm_user",
	"igb", "igbvf", "vfio_pci", "vfio_iommu_type1",
	"macvlan", "ipvlan", "8021q", "dummy", "bonding", "vrf",
	// What rules of iptables in its older form are made of; the kernel would ask
	// for a table that is missing by modprobe, which there is not.
	"iptable_filter", "iptable_nat", "xt_tcpudp", "xt_comment", "xt_addrtype", "xt_multiport", "xt_mark",
	"xt_conntrack", "xt_nat", "xt_MASQUERADE",
	// What bandwidth limits by.
	"ifb", "sch_tbf", "sch_ingress", "cls_u32", "act_mirred",
	// Without it a soft RoCE device is refused as "no such file".
	"crc32_generic",
	"ib_uverbs", "ib_umad", "rdma_ucm", "rdma_rxe", "lanerdma",
}

// moduleParameters keep modules from making interfaces that nobody asked for.
var moduleParameters = map[string]string{"dummy": "numdummies=0", "bonding": "max_bonds=0", "ifb": "numifbs=0"}

// collectModules copies the modules and what they depend on, decompressed, and
// writes down the order to load them in, with their parameters.
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

// moduleName is how modules refer to each other; their files may be named with
// hyphens.
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

// dependencies reads what a module says that it needs.
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

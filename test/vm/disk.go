package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/vm/wire"
)

// parts has the paths of everything that the guest is made of.
type parts struct {
	kernel   string // the folder of the kernel kit
	iptables string // the folder of iptables' files, as they are in the guest
	agent    string
	plugins  []string // CNI plugins
	other    string   // the DRA driver of another vendor
	multus   string   // Multus without a daemon
	devices  string   // a device plugin
	sriov    string   // the CNI plugin, if there is one
	sriovDP  string   // the SR-IOV device plugin, if there is one
}

// writeInitramfs writes the first root file system, with the modules and the agent.
func (p parts) writeInitramfs(path string) error {
	var a archive
	for _, folder := range []string{"dev", "proc", "sys", "disk"} {
		a.folder(folder)
	}
	a.device("dev/console", 5, 1)
	files := map[string]string{"init": p.agent}
	entries, err := os.ReadDir(filepath.Join(p.kernel, modulesDir))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		files["lib/modules/"+entry.Name()] = filepath.Join(p.kernel, modulesDir, entry.Name())
	}
	for name, source := range files {
		content, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		a.file(name, content)
	}
	return os.WriteFile(path, a.bytes(), 0o644)
}

// diskSize is the size of the guest's disk; the file is sparse.
const diskSize = "4G"

// writeDisk writes the guest's disk: the programs of a node, its configuration, the CNI
// plugins and the images.
func writeDisk(ctx context.Context, path string, p parts, c *cluster.Cluster, boot wire.Boot, images []string) error {
	root, err := os.MkdirTemp(filepath.Dir(path), "disk-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	s := stage{root: root}
	for _, folder := range []string{
		"dev", "proc", "sys", "run", "tmp", "root", "var/log", "var/lib/kubelet", "var/lib/cni", "usr/bin",
	} {
		s.folder(folder)
	}
	s.symlink("/run", "var/run")
	s.programs(p, c.Artifacts())
	for _, name := range iptablesNames {
		s.symlink(filepath.Base(iptablesProgram), filepath.Join(iptablesFolder, name))
	}
	s.note(unpackImages(ctx, c, images, filepath.Join(root, "var/lib/containerd")))
	files, err := c.Guests()[0].Files()
	if err != nil {
		return err
	}
	if files[wire.BootFile], err = json.Marshal(boot); err != nil {
		return err
	}
	files["/etc/hosts"] = []byte("127.0.0.1 localhost\n")
	files["/etc/resolv.conf"] = nil
	files["/etc/passwd"] = []byte("root:x:0:0:root:/root:/bin/sh\n") // kubelet looks for its user
	for name, content := range files {
		s.write(name, content)
	}
	if s.err != nil {
		return fmt.Errorf("collecting what is on the disk: %w", s.err)
	}
	// The guest boots from it only once, so it needs no journal.
	_, err = run(ctx, "", "mkfs.ext4", "-q", "-O", "^has_journal", "-d", root, path, diskSize)
	return err
}

// stage collects a tree of files and keeps the first error.
type stage struct {
	root string
	err  error
}

func (s *stage) programs(p parts, a cluster.Artifacts) {
	s.add("/bin/agent", p.agent)
	s.add("/bin/otherdriver", p.other)
	s.add("/bin/deviceplugin", p.devices)
	// The program acts by the name under which it is called.
	s.add("/bin/kubelet", filepath.Join(a.Kubernetes, "hyper"))
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		s.add("/bin/"+name, filepath.Join(a.Containerd, name))
	}
	s.add("/bin/runc", filepath.Join(a.Runc, "runc"))
	busybox, err := exec.LookPath("busybox")
	s.note(err)
	s.add("/bin/busybox", busybox)
	for _, applet := range []string{"sh", "mount", "umount", "ip", "ls", "cat", "ping", "rm", "ps", "tail", "dmesg", "find", "basename", "readlink"} {
		s.symlink("busybox", "/bin/"+applet)
	}
	const plugins = "/opt/cni/bin"
	entries, err := os.ReadDir(a.CNI)
	s.note(err)
	for _, entry := range entries {
		s.add(filepath.Join(plugins, entry.Name()), filepath.Join(a.CNI, entry.Name()))
	}
	for _, plugin := range p.plugins {
		s.add(filepath.Join(plugins, filepath.Base(plugin)), plugin)
	}
	s.add(filepath.Join(plugins, "multus"), p.multus)
	s.tree(p.iptables)
	if p.sriov != "" {
		s.add(filepath.Join(plugins, "sriov"), p.sriov)
	}
	if p.sriovDP != "" {
		s.add("/bin/sriovdp", p.sriovDP)
	}
}

func (s *stage) note(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *stage) folder(name string) { s.note(os.MkdirAll(filepath.Join(s.root, name), 0o755)) }

func (s *stage) symlink(target, name string) {
	s.folder(filepath.Dir(name))
	s.note(os.Symlink(target, filepath.Join(s.root, name)))
}

func (s *stage) write(name string, content []byte) {
	s.folder(filepath.Dir(name))
	s.note(os.WriteFile(filepath.Join(s.root, name), content, 0o644))
}

// add adds a file of this machine, as a hard link if possible.
func (s *stage) add(name, source string) {
	if s.err != nil {
		return
	}
	s.folder(filepath.Dir(name))
	target := filepath.Join(s.root, name)
	if os.Link(source, target) == nil {
		return
	}
	s.note(copyFile(target, source))
}

// tree adds all files of a folder, under their names in it.
func (s *stage) tree(folder string) {
	s.note(filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err == nil {
			s.add(name, path)
		}
		return err
	}))
}

func copyFile(target, source string) (err error) {
	from, err := os.Open(source)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	to, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	_, err = io.Copy(to, from)
	return err
}

package cluster

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mount gives the machine its own view of the file system. It is that of the real machine,
// except for /proc, /sys, /run and the mounts of the configuration.
func (c machineConfig) mount() error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE); err != nil {
		return err
	}
	for _, b := range c.Folders {
		// The empty folder stays on the real machine. Removing it would remove the mounts
		// of other machines on it.
		if err := os.MkdirAll(b.Target, 0o755); err != nil {
			return err
		}
	}
	if err := c.changeRoot(); err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", 0); err != nil {
		return err
	}
	if err := c.mountSys(); err != nil {
		return err
	}
	// As on a real machine, where pods may request to see later mounts.
	if err := mount("", "/", "", unix.MS_REC|unix.MS_SHARED); err != nil {
		return err
	}
	if err := mount("tmpfs", "/run", "tmpfs", 0); err != nil {
		return err
	}
	for _, dir := range []string{"/run/netns", "/run/lock"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	for _, b := range c.Folders {
		if err := mount(b.Source, b.Target, "", unix.MS_BIND); err != nil {
			return err
		}
	}
	for _, b := range c.Files {
		if err := mount(b.Source, b.Target, "", unix.MS_BIND); err != nil {
			return err
		}
	}
	return nil
}

// changeRoot replaces the root file system by a read-only one with the same files, if the
// configuration has writable folders. It is an overlay without an upper layer, because a
// container's runtime makes a read-only mount of a writable file system writable again.
func (c machineConfig) changeRoot() error {
	if len(c.Writable) == 0 {
		return nil
	}
	root := c.Scratch
	// An overlay needs a second layer, which must not be in the first.
	if err := mount("tmpfs", root, "tmpfs", 0); err != nil {
		return err
	}
	if err := unix.Mount("overlay", root, "overlay", unix.MS_RDONLY, "lowerdir=/:"+root); err != nil {
		return fmt.Errorf("mounting a read-only root: %w", err)
	}
	for _, dir := range append([]string{"/dev", "/proc", "/sys"}, c.Writable...) {
		if err := mount(dir, filepath.Join(root, dir), "", unix.MS_BIND|unix.MS_REC); err != nil {
			return err
		}
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	// The old root comes to lie over the new one, and is unmounted from there.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting the old root: %w", err)
	}
	return os.Chdir("/")
}

// mountSys mounts a new sysfs, because an old one shows the network devices of the
// namespace in which it was mounted. It keeps the control groups. This must come before
// mounts are shared: afterwards the unmount would propagate to the new place of the control
// groups.
func (c machineConfig) mountSys() error {
	const groups = "/sys/fs/cgroup"
	if err := mount(groups, c.Scratch, "", unix.MS_BIND|unix.MS_REC); err != nil {
		return err
	}
	if err := mount("sysfs", "/sys", "sysfs", 0); err != nil {
		return err
	}
	if err := mount(c.Scratch, groups, "", unix.MS_BIND|unix.MS_REC); err != nil {
		return err
	}
	if err := unix.Unmount(c.Scratch, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting %s: %w", c.Scratch, err)
	}
	return nil
}

func mount(source, target, kind string, flags uintptr) error {
	if err := unix.Mount(source, target, kind, flags, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", target, err)
	}
	return nil
}

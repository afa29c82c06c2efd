package cluster

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mount gives the machine its own view of the file system. It is that of the real machine,
// except for /proc, /sys, /run and the mounts of the configuration.
func (c machineConfig) mount() error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE); err != nil {
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
		// The empty folder stays on the real machine. Removing it would remove the mounts
		// of other machines on it.
		if err := os.MkdirAll(b.Target, 0o755); err != nil {
			return err
		}
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

package cluster

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mount gives the machine its own view of the file system. It is the view of
// the real machine, except for /proc, /sys, /run and what the configuration
// lists.
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
	// As on a real machine, where pods may ask to see later mounts.
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
		// The empty folder stays behind on the real machine. Removing it would
		// take the mount away from every other machine that has one there.
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

// mountSys mounts a new sysfs, since an old one keeps showing the network
// devices of the namespace that it was mounted in. The control groups are
// taken over. This must come before mounts are shared: afterwards the unmount
// would propagate to the place the control groups went to.
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

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// second is the argument of the agent that was started from the disk.
const second = "on-disk"

// boot runs as the first process. It returns only when it cannot go on.
func boot() error {
	if !slices.Contains(os.Args, second) {
		return firstStage()
	}
	if err := mountAll(
		mount{"tmpfs", "/run", "tmpfs"}, mount{"tmpfs", "/tmp", "tmpfs"}, mount{"tmpfs", "/dev/shm", "tmpfs"},
		mount{"devpts", "/dev/pts", "devpts"}, mount{"mqueue", "/dev/mqueue", "mqueue"},
		mount{"cgroup2", "/sys/fs/cgroup", "cgroup2"},
	); err != nil {
		return err
	}
	// systemd does the same, because pods may request to see later mounts.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing mounts: %w", err)
	}
	if err := os.MkdirAll("/run/netns", 0o755); err != nil {
		return err
	}
	return reapUntilEnd("/bin/agent", "serve")
}

// reapUntilEnd runs the server as a child, which waits for its own children, and reaps the
// processes that lose their parent.
func reapUntilEnd(program string, args ...string) error {
	server := exec.Command(program, args...)
	server.Stdout, server.Stderr = os.Stdout, os.Stderr
	if err := server.Start(); err != nil {
		return err
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("waiting for processes: %w", err)
		}
		if pid == server.Process.Pid {
			return fmt.Errorf("the server has ended with status %d", status)
		}
	}
}

// firstStage runs from the initramfs. It loads the modules, and makes the disk the root by
// moving the mount, because runc's pivot_root refuses an initramfs.
func firstStage() error {
	if err := mountAll(mount{"proc", "/proc", "proc"}, mount{"sysfs", "/sys", "sysfs"}, mount{"devtmpfs", "/dev", "devtmpfs"}); err != nil {
		return err
	}
	if err := loadModules("/lib/modules"); err != nil {
		return err
	}
	const disk = "/disk"
	if err := mountAll(mount{"/dev/vda", disk, "ext4"}); err != nil {
		return err
	}
	for _, dir := range []string{"/dev", "/proc", "/sys"} {
		if err := unix.Mount(dir, disk+dir, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("moving %s: %w", dir, err)
		}
	}
	if err := unix.Chdir(disk); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("changing to the disk: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	// Nearly all programs here are in Go. There is more memory than CPU time, and it costs time to wake a second processor.
	env := []string{"PATH=/bin:/sbin:/usr/bin:/usr/sbin", "HOME=/root", "GOGC=400", "GOMAXPROCS=1"}
	return unix.Exec("/bin/agent", []string{"/bin/agent", second}, env)
}

// loadModules loads the modules in the order of their list.
func loadModules(dir string) error {
	list, err := os.ReadFile(filepath.Join(dir, "order"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(list)) {
		name, parameters, _ := strings.Cut(strings.TrimSpace(line), " ")
		if err := loadModule(filepath.Join(dir, name+".ko"), parameters); err != nil {
			return fmt.Errorf("loading module %s: %w", name, err)
		}
	}
	return nil
}

func loadModule(path, parameters string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	err = unix.FinitModule(int(file.Fd()), parameters, 0)
	if errors.Is(err, unix.EEXIST) {
		return nil // it is also part of the kernel
	}
	return err
}

type mount struct{ source, target, kind string }

func mountAll(mounts ...mount) error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
		err := unix.Mount(m.source, m.target, m.kind, 0, "")
		// The kernel mounts some file systems by itself.
		if err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mounting %s on %s: %w", m.source, m.target, err)
		}
	}
	return nil
}

package cluster

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// machineNamespaces are the namespaces that each machine has of its own.
const machineNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// onOwnThread runs fn on an operating system thread that ends afterwards, so that fn may
// leave it in any namespace.
func onOwnThread(fn func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The main thread cannot end, and /proc/self shows its namespaces:
			// keep it busy and take another.
			result <- onOwnThread(fn)
			runtime.UnlockOSThread()
			return
		}
		// No unlock: a thread ends with the goroutine that it is locked to.
		result <- fn()
	}()
	return <-result
}

// enter runs fn in some of the namespaces of the process behind pidfd. Processes that fn
// starts with os/exec are in these namespaces, including the PID namespace.
func enter(pidfd, namespaces int, fn func() error) error {
	return onOwnThread(func() error {
		if namespaces&unix.CLONE_NEWNS != 0 {
			// Root and working directory are shared by all threads until now.
			if err := unix.Unshare(unix.CLONE_FS); err != nil {
				return fmt.Errorf("unsharing the root directory: %w", err)
			}
		}
		if err := unix.Setns(pidfd, namespaces); err != nil {
			return fmt.Errorf("entering namespaces: %w", err)
		}
		return fn()
	})
}

// inNetNS runs fn in the network namespace at path.
func inNetNS(path string, fn func() error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening network namespace: %w", err)
	}
	defer file.Close()
	return onOwnThread(func() error {
		if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering network namespace %s: %w", path, err)
		}
		return fn()
	})
}

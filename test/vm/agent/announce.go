package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// announceRDMA makes the RDMA subsystem recreate the devices' files (uverbsN, umadN), as it
// does when a device changes its network namespace. The existing files were created before
// the device was below its function, and their folders are elsewhere. So each device moves
// to a namespace and back.
func announceRDMA(devices []string) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		result <- thereAndBack(devices)
	}()
	return <-result
}

// thereAndBack leaves its thread in another network namespace.
func thereAndBack(devices []string) error {
	home, err := ownNamespace()
	if err != nil {
		return err
	}
	defer home.Close()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("making a network namespace: %w", err)
	}
	away, err := ownNamespace()
	if err != nil {
		return err
	}
	defer away.Close()
	return errors.Join(moveRDMA(devices, home, away), moveRDMA(devices, away, home))
}

func ownNamespace() (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
}

func moveRDMA(devices []string, from, to *os.File) error {
	if err := unix.Setns(int(from.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("changing the network namespace: %w", err)
	}
	for _, name := range devices {
		link, err := netlink.RdmaLinkByName(name)
		if err == nil {
			err = netlink.RdmaLinkSetNsFd(link, uint32(to.Fd()))
		}
		if err != nil {
			return fmt.Errorf("moving RDMA device %s: %w", name, err)
		}
	}
	return nil
}

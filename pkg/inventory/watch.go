package inventory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// quiet is how long nothing must happen before changes are told of: a card
	// that gets VFs announces each several times.
	quiet = 500 * time.Millisecond
	// patience is how long they are held back at most.
	patience = 5 * time.Second
)

// Watch calls changed some time after the host's hardware may have changed,
// until ctx ends: after devices of interest come, go, or get another driver, by
// the kernel's uevents, and after links of hardware go up or down, by netlink.
// Changes in quick succession are one. A subscription that is lost ends Watch
// with an error; the caller starts it anew, and looks for itself what it missed.
func (r Reader) Watch(ctx context.Context, changed func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	poke := make(chan struct{}, 1)
	stir := func() {
		select {
		case poke <- struct{}{}:
		default:
		}
	}
	events, err := openEvents()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = events.Close() })
	defer stop()
	links, done := make(chan netlink.LinkUpdate), make(chan struct{})
	if err := netlink.LinkSubscribe(links, done); err != nil {
		return errors.Join(fmt.Errorf("subscribing to link changes: %w", err), events.Close())
	}
	var following sync.WaitGroup
	following.Go(func() { cancel(followEvents(events, stir)) })
	following.Go(func() { cancel(r.followLinks(links, stir)) })
	debounce(ctx, poke, changed)
	close(done)
	following.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return nil
}

// debounce calls changed when, after a poke, none has come for a while.
func debounce(ctx context.Context, poke <-chan struct{}, changed func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-poke:
		}
		latest := time.After(patience)
	settling:
		for {
			select {
			case <-ctx.Done():
				return
			case <-poke:
			case <-latest:
				break settling
			case <-time.After(quiet):
				break settling
			}
		}
		changed()
	}
}

// openEvents subscribes to what the kernel tells udev. The file's reads are
// messages; Close ends one that waits.
func openEvents() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("subscribing to the kernel's uevents: %w", err)
	}
	const fromKernel = 1 // the multicast group; 2 is udev's own
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: fromKernel}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("subscribing to the kernel's uevents: %w", err)
	}
	return os.NewFile(uintptr(fd), "uevents"), nil
}

// followEvents reads until the file is closed.
func followEvents(events *os.File, stir func()) error {
	buf := make([]byte, 16<<10) // the kernel's messages have 2 KiB at most
	for {
		n, err := events.Read(buf)
		switch {
		case errors.Is(err, unix.ENOBUFS): // some were lost; what they said is read from sysfs
			stir()
		case errors.Is(err, os.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("reading the kernel's uevents: %w", err)
		case concerns(string(buf[:n])):
			stir()
		}
	}
}

// concerns reports whether a uevent is about hardware of this package. Pods
// bring virtual interfaces up and down all the time.
func concerns(event string) bool {
	var subsystem, path string
	for field := range strings.SplitSeq(event, "\x00") {
		if value, ok := strings.CutPrefix(field, "SUBSYSTEM="); ok {
			subsystem = value
		} else if value, ok := strings.CutPrefix(field, "DEVPATH="); ok {
			path = value
		}
	}
	switch subsystem {
	case "vdpa", "infiniband":
		return true
	case "pci", "net", "auxiliary":
		return strings.HasPrefix(path, "/devices/pci")
	}
	return false
}

// followLinks reads until the subscription ends. It also ends with Watch.
func (r Reader) followLinks(links <-chan netlink.LinkUpdate, stir func()) error {
	known := map[int32]state{}
	for u := range links {
		a := u.Link.Attrs()
		if u.Header.Type == unix.RTM_DELLINK {
			delete(known, u.Index)
			continue // a uevent says the same
		}
		now := state{a.OperState, a.RawFlags&unix.IFF_UP != 0}
		if before, ok := known[u.Index]; ok && before == now {
			continue
		}
		known[u.Index] = now
		if r.physical(a.Name) {
			stir()
		}
	}
	return errors.New("the subscription to link changes was lost")
}

// state is what of a link matters here.
type state struct {
	oper netlink.LinkOperState
	up   bool
}

// physical reports whether the interface has a device.
func (r Reader) physical(name string) bool {
	root := r.Sys
	if root == "" {
		root = "/sys"
	}
	_, err := os.Stat(root + "/" + classNet + name + "/device")
	return err == nil
}

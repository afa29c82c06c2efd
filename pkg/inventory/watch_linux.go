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
	// settleTime is the time without events after which debounce calls changed: a card
	// that gets VFs announces each of them several times.
	settleTime = 500 * time.Millisecond
	// maxDelay is the longest time for which debounce delays the call.
	maxDelay = 5 * time.Second
)

// Watch calls changed some time after the host's hardware may have changed, until ctx ends:
// after relevant devices are added, removed or bound to another driver, by the kernel's
// uevents, and after links of hardware go up or down, by netlink. It combines changes in
// quick succession. If a subscription is lost, Watch returns an error: the caller calls it
// again and reads the inventory to find missed changes.
func (r Reader) Watch(ctx context.Context, changed func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	events := make(chan struct{}, 1)
	notify := func() {
		select {
		case events <- struct{}{}:
		default:
		}
	}
	uevents, err := openUevents()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = uevents.Close() })
	defer stop()
	links, done := make(chan netlink.LinkUpdate), make(chan struct{})
	if err := netlink.LinkSubscribe(links, done); err != nil {
		return errors.Join(fmt.Errorf("subscribing to link changes: %w", err), uevents.Close())
	}
	var readers sync.WaitGroup
	readers.Go(func() { cancel(readUevents(uevents, notify)) })
	readers.Go(func() { cancel(r.readLinks(links, notify)) })
	debounce(ctx, events, changed)
	close(done)
	readers.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return nil
}

// debounce calls changed when no further event has followed an event for settleTime, and at
// the latest after maxDelay.
func debounce(ctx context.Context, events <-chan struct{}, changed func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
		}
		latest := time.After(maxDelay)
	waiting:
		for {
			select {
			case <-ctx.Done():
				return
			case <-events:
			case <-latest:
				break waiting
			case <-time.After(settleTime):
				break waiting
			}
		}
		changed()
	}
}

// openUevents subscribes to the kernel's uevents. Each Read of the file returns a message;
// Close ends a Read that waits.
func openUevents() (*os.File, error) {
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

// readUevents calls notify after each relevant uevent, until the file is closed.
func readUevents(uevents *os.File, notify func()) error {
	buf := make([]byte, 16<<10) // the kernel's messages have 2 KiB at most
	for {
		n, err := uevents.Read(buf)
		switch {
		case errors.Is(err, unix.ENOBUFS): // messages were lost; sysfs has the facts
			notify()
		case errors.Is(err, os.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("reading the kernel's uevents: %w", err)
		case relevant(string(buf[:n])):
			notify()
		}
	}
}

// relevant reports whether a uevent is about hardware of the inventory. Pods add and remove
// virtual interfaces all the time.
func relevant(event string) bool {
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

// readLinks calls notify after each relevant change of a link, until the subscription ends.
func (r Reader) readLinks(links <-chan netlink.LinkUpdate, notify func()) error {
	known := map[int32]state{}
	for u := range links {
		a := u.Link.Attrs()
		if u.Header.Type == unix.RTM_DELLINK {
			delete(known, u.Index)
			continue // there is a uevent, too
		}
		now := state{a.OperState, a.RawFlags&unix.IFF_UP != 0}
		if before, ok := known[u.Index]; ok && before == now {
			continue
		}
		known[u.Index] = now
		if r.physical(a.Name) {
			notify()
		}
	}
	return errors.New("the subscription to link changes was lost")
}

// state is the part of a link's state that matters here.
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

package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// lockPoll is the pause between two tries to lock the state directory.
const lockPoll = 100 * time.Millisecond

// lockState locks the state directory for this process, and waits while another has it. Two
// drivers, an old one that ends slowly and its successor, would both run the plugins of every
// pod. The kernel unlocks the directory when a process dies.
func lockState(ctx context.Context, dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the state directory: %w", err)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the state directory: %w", err)
	}
	for logged := false; ; logged = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("locking the state directory %s: %w", dir, err), f.Close())
		}
		if !logged {
			klog.FromContext(ctx).Info("Another driver uses the state directory; waiting for its end", "dir", dir)
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for another driver that uses %s: %w", dir, context.Cause(ctx)), f.Close())
		}
	}
}

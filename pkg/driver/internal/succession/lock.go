package succession

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/atomicfile"
)

// ErrHeld means that another driver has the state directory.
var ErrHeld = errors.New("another driver uses the state directory")

// Lock is the right to use a state directory. The kernel ends it when the process dies.
type Lock struct{ dir *os.File }

// TryLock locks a state directory, which it creates if necessary, for this process. It returns
// ErrHeld if another process has it: two drivers would both run the plugins of every pod.
func TryLock(dir string) (*Lock, error) {
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the state directory: %w", err)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the state directory: %w", err)
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, errors.Join(ErrHeld, f.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("locking the state directory %s: %w", dir, err), f.Close())
	}
	return &Lock{f}, nil
}

// Release unlocks the directory for the next driver. It does nothing the second time.
func (l *Lock) Release() { _ = l.dir.Close() }

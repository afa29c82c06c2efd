package cluster

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockFolder makes dir and locks it against other processes that do the same; the lock ends
// with the process at the latest. There is no lock file to remove, because the folder
// itself is locked.
func lockFolder(ctx context.Context, dir string) (unlock func(), err error) {
	file, err := lockedFolder(ctx, dir)
	if err != nil {
		return nil, err
	}
	return func() { file.Close() }, nil
}

// lockedFolder does the same. The lock is held until the last process that has the file closes it.
func lockedFolder(ctx context.Context, dir string) (file *os.File, err error) {
	err = poll(ctx, time.Hour, "waiting for the lock on "+dir, func(context.Context) (bool, error) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return false, stop(err)
		}
		file, err = lockExisting(dir, unix.LOCK_EX|unix.LOCK_NB)
		return err == nil, err
	})
	return file, err
}

// lockExisting locks a folder as flock(2) does; closing the file ends the lock.
// It fails if the folder was removed or renamed before the lock was granted.
func lockExisting(dir string, how int) (*os.File, error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), how)
	if err == nil && !isSameFile(file, dir) {
		err = fs.ErrNotExist
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return file, nil
}

func isSameFile(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(opened, named)
}

package cluster

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockFolder makes dir and locks it against other processes that do the same;
// the lock ends with the process at the latest. There is no lock file to
// remove: it is the folder itself that is locked.
func lockFolder(ctx context.Context, dir string) (unlock func(), err error) {
	var file *os.File
	err = poll(ctx, time.Hour, "waiting for the lock on "+dir, func(context.Context) (bool, error) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return false, stop(err)
		}
		if file, err = os.Open(dir); err != nil {
			return false, err
		}
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			file.Close()
			return false, err
		}
		if !isSameFile(file, dir) { // removed by the one who had the lock
			file.Close()
			return false, nil
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return func() { file.Close() }, nil
}

func isSameFile(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(opened, named)
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process identifies a process for good: a PID may be reused, the pair of PID and start
// time is not. The package signals only processes that are identified so.
type process struct {
	pid     int
	started string // in clock ticks since boot
}

var errNotRunning = errors.New("not running")

// identify returns the process that has pid now. pid may be "self".
func identify(pid string) (process, error) {
	content, err := os.ReadFile("/proc/" + pid + "/stat")
	if errors.Is(err, unix.ESRCH) { // it has ended since the file was opened
		return process{}, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if err != nil {
		return process{}, err
	}
	// The command name, in parentheses, may hold anything. The start time is
	// the twentieth field after it.
	line := string(content)
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 20 {
		return process{}, fmt.Errorf("reading /proc/%s/stat: too short", pid)
	}
	p := process{started: fields[19]}
	_, err = fmt.Sscan(line, &p.pid)
	return p, err
}

// readProcess reads a PID file. Without one there is no process.
func readProcess(path string) (process, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return process{}, errNotRunning
	}
	if err != nil {
		return process{}, err
	}
	var p process
	if _, err := fmt.Sscan(string(content), &p.pid, &p.started); err != nil {
		return process{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return p, nil
}

func (p process) write(path string) error {
	partial := path + ".partial"
	if err := os.WriteFile(partial, fmt.Appendln(nil, p.pid, p.started), 0o600); err != nil {
		return err
	}
	return os.Rename(partial, path)
}

// open returns a file descriptor for the process, which stays with it.
func (p process) open() (int, error) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return -1, errNotRunning
	}
	if err != nil {
		return -1, fmt.Errorf("opening process %d: %w", p.pid, err)
	}
	if now, err := identify(strconv.Itoa(p.pid)); err != nil || now != p || hasExited(fd) {
		unix.Close(fd)
		return -1, errNotRunning
	}
	return fd, nil
}

// hasExited reports whether the last thread is gone, and with it open files and listening
// sockets. A process whose main thread is a zombie may have other threads.
func hasExited(pidfd int) bool {
	ready, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return err == nil && ready == 1
}

func (p process) alive() bool {
	fd, err := p.open()
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// signal sends a signal. It returns errNotRunning if the process has ended.
func (p process) signal(signal unix.Signal) error {
	fd, err := p.open()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.PidfdSendSignal(fd, signal, nil, 0)
}

// wait waits until the process has ended.
func (p process) wait(ctx context.Context, limit time.Duration) error {
	return poll(ctx, limit, fmt.Sprintf("waiting for process %d to end", p.pid), func(context.Context) (bool, error) {
		return !p.alive(), nil
	})
}

// end sends a signal and waits. It kills a process that does not obey in time.
func (p process) end(ctx context.Context, signal unix.Signal, limit time.Duration) error {
	if err := p.signal(signal); err != nil {
		if errors.Is(err, errNotRunning) {
			return nil
		}
		return err
	}
	if err := p.wait(ctx, limit); err == nil || ctx.Err() != nil {
		return err
	}
	if err := p.signal(unix.SIGKILL); err != nil && !errors.Is(err, errNotRunning) {
		return err
	}
	return p.wait(ctx, limit)
}

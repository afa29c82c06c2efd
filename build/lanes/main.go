// Command lanes runs make targets one after another and tells what each took.
//
//	lanes [-logs FOLDER] TARGET...
//
// It goes on after a target that fails, so that one run names all that is red, and
// exits with 1 then. What a failed target printed last is printed again at the end;
// all of it is in FOLDER/TARGET.log. The table behind it has the wall time and the CPU
// time of each target, and the command that runs alone what has failed: single tests
// where the target has left gotestsum's notes in FOLDER/TARGET.json. CPU time is that
// of all processes that the target has started and that have ended, also of those that
// it did not wait for.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	logs := flag.String("logs", ".", "the `folder` for what the targets print")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "lanes: name the make targets to run")
		os.Exit(2)
	}
	if err := run(*logs, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "lanes:", err)
		os.Exit(1)
	}
}

// run runs the targets. It stops early when it is interrupted.
func run(logs string, targets []string) error {
	// Processes whose parents have ended become children of this one.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("asking for the processes that lanes leave: %w", err)
	}
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return fmt.Errorf("making the folder for logs: %w", err)
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, unix.SIGTERM) // make gets them, too, and ends
	var took []lane
	for _, target := range targets {
		fmt.Printf("\n=== make %s\n", target)
		l, err := noted(target, filepath.Join(logs, target))
		if err != nil {
			return err
		}
		took = append(took, l)
		if len(interrupted) > 0 {
			break
		}
	}
	fmt.Print("\n", endings(took), table(took, len(targets)))
	if red := failed(took); len(red) > 0 || len(took) < len(targets) {
		return fmt.Errorf("%d of %d lanes have not passed", len(red)+len(targets)-len(took), len(targets))
	}
	return nil
}

// noted runs a target, whose notes are in path.json and what it prints in path.log.
func noted(target, path string) (lane, error) {
	notes := path + ".json"
	if err := os.RemoveAll(notes); err != nil { // of an earlier run
		return lane{}, fmt.Errorf("removing old notes: %w", err)
	}
	l, err := logged(exec.Command("make", "--no-print-directory", target), path+".log")
	if err != nil {
		return lane{}, err
	}
	l.name = target
	file, err := os.Open(notes)
	if errors.Is(err, fs.ErrNotExist) { // a target without, or one that ended before its tests
		return l, nil
	}
	if err != nil {
		return lane{}, fmt.Errorf("opening the notes: %w", err)
	}
	defer func() { _ = file.Close() }()
	l.tests, err = failures(file)
	return l, err
}

// logged runs a command to its end. What it prints is seen, and kept in a file.
func logged(command *exec.Cmd, path string) (lane, error) {
	log, err := os.Create(path)
	if err != nil {
		return lane{}, fmt.Errorf("making the log: %w", err)
	}
	defer func() { _ = log.Close() }()
	both := io.MultiWriter(os.Stdout, log)
	command.Stdout, command.Stderr = both, both
	command.WaitDelay = 10 * time.Second // for a process that it has left, which fails it
	l, err := measure(command)
	if err != nil {
		return lane{}, err
	}
	printed, err := os.ReadFile(path)
	if err != nil {
		return lane{}, fmt.Errorf("reading the log: %w", err)
	}
	l.ending = lastLines(string(printed))
	return l, nil
}

// measure runs a command to its end.
func measure(command *exec.Cmd) (lane, error) {
	before, err := cpuOfEnded()
	if err != nil {
		return lane{}, err
	}
	begun := time.Now()
	err = command.Run()
	l := lane{wall: time.Since(begun), err: err}
	reap()
	after, err := cpuOfEnded()
	l.cpu = after - before
	return l, err
}

// reap waits for the orphans that have ended, which counts their CPU time.
func reap() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err != unix.EINTR && (err != nil || pid == 0) {
			return
		}
	}
}

// cpuOfEnded returns the CPU time of all children that were waited for, and of theirs.
func cpuOfEnded() (time.Duration, error) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &usage); err != nil {
		return 0, fmt.Errorf("reading the CPU time of what has ended: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// eventsInterval is how often a lane's events are read.
	eventsInterval = time.Second
	// leftBehindLimit is how long a process that a target has left behind may hold the
	// target's output open, before that fails the lane.
	leftBehindLimit = 10 * time.Second
)

// command is a program with its arguments and its priority.
type command struct {
	name     string
	args     []string
	niceness int
}

// lane is one make target and its result.
type lane struct {
	name    string
	begun   time.Time
	usage   usage
	err     error
	ending  string   // its last lines
	summary []string // its summary lines
	tests   tests
}

// runLane runs a command as a lane, shows its progress on the board and returns its
// result. The output is kept in path.log, events are read from path.json. When ctx ends
// all processes of the command are interrupted.
func runLane(ctx context.Context, board *board, name, path string, c command) lane {
	l := lane{name: name, begun: time.Now()}
	events := &follower{path: path + ".json"}
	if err := removeOld(path); err != nil {
		l.err = err
		return l
	}
	board.begin(l)
	follow, stop := context.WithCancel(context.Background())
	followed := make(chan error, 1)
	go func() { followed <- watch(follow, board, name, path+".log", events) }()
	l.usage, l.err = c.run(ctx, path)
	stop()
	l.err = errors.Join(l.err, <-followed, l.readLog(path+".log"))
	l.tests = events.tests
	board.end(l)
	return l
}

// removeOld removes the files of an earlier run.
func removeOld(path string) error {
	for _, suffix := range []string{".json", ".log", ".usage"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the files of an earlier run: %w", err)
		}
	}
	return nil
}

// watch shows a lane's events and last line on the board until ctx ends, and once more
// then.
func watch(ctx context.Context, board *board, name, log string, events *follower) error {
	ticker := time.NewTicker(eventsInterval)
	defer ticker.Stop()
	for {
		err := events.read()
		board.update(name, events.tests, lastLine(log))
		if err != nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// lastLine returns the last whole line of a file, or an empty one if there is none. It
// skips lines about downloads: what follows a download may compile for minutes without
// another line.
func lastLine(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	tail, err := io.ReadAll(io.NewSectionReader(file, max(0, end-4096), 4096))
	if err != nil {
		return ""
	}
	last := ""
	for line := range strings.Lines(string(tail[:1+strings.LastIndexByte(string(tail), '\n')])) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "go: downloading ") {
			last = line
		}
	}
	return last
}

// run runs the command under a supervisor, with its output in path.log.
func (c command) run(ctx context.Context, path string) (usage, error) {
	log, err := os.Create(path + ".log")
	if err != nil {
		return usage{}, fmt.Errorf("making the log: %w", err)
	}
	defer func() { _ = log.Close() }()
	self, err := os.Executable()
	if err != nil {
		return usage{}, fmt.Errorf("finding this program: %w", err)
	}
	cmd := exec.Command(self, append([]string{superviseFlag, path + ".usage", "nice", "-n", strconv.Itoa(c.niceness), c.name}, c.args...)...)
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	// A pipe, so that a process that is left behind is noticed: it holds it open.
	out := io.Writer(struct{ io.Writer }{log})
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = leftBehindLimit
	if err := cmd.Start(); err != nil {
		return usage{}, fmt.Errorf("starting %s: %w", c.name, err)
	}
	// The command removes its clusters then, which may take a minute.
	stop := context.AfterFunc(ctx, func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGINT) })
	runErr := cmd.Wait()
	stop()
	var used usage
	content, err := os.ReadFile(path + ".usage")
	if err == nil {
		err = json.Unmarshal(content, &used)
	}
	if err != nil {
		err = fmt.Errorf("reading what the lane used: %w", err)
	}
	return used, errors.Join(runErr, err)
}

// readLog takes the last lines and the summary lines from a log.
func (l *lane) readLog(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	defer func() { _ = file.Close() }()
	var last []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		last = append(last, lines.Text())
		if len(last) > linesShown {
			last = last[1:]
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	l.ending = strings.Join(last, "\n")
	l.summary = summaryLines(last)
	return nil
}

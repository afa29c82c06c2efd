package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// component is a long-running program of a machine.
type component struct {
	name  string
	path  string
	args  []string
	env   []string                    // besides that of the machine
	check func(context.Context) error // nil when it works; nil function: nothing to wait for
}

const (
	// startLimit is how long a component may take until it works. It is long because the
	// machine may be busy; the end of a component is noticed at once.
	startLimit = 2 * time.Minute
	// stopLimit is how long a component may take to end when asked to.
	stopLimit = 10 * time.Second
)

func (m *Machine) component(name string) (component, error) {
	for _, c := range m.components {
		if c.name == name {
			return c, nil
		}
	}
	return component{}, fmt.Errorf("%s has no component %q, only %s", m.name, name, strings.Join(m.Components(), ", "))
}

// Components lists the names of the components, in the order of their start.
func (m *Machine) Components() []string {
	names := make([]string, 0, len(m.components))
	for _, c := range m.components {
		names = append(names, c.name)
	}
	return names
}

// StartComponent starts a component that is not running and returns when it
// works.
func (m *Machine) StartComponent(ctx context.Context, name string) error {
	c, err := m.component(name)
	if err != nil {
		return err
	}
	return m.start(ctx, c)
}

func (m *Machine) start(ctx context.Context, c component) error {
	if m.Running(c.name) {
		return fmt.Errorf("starting %s on %s: already running", c.name, m.name)
	}
	if err := m.spawn(c); err != nil {
		return fmt.Errorf("starting %s on %s: %w", c.name, m.name, err)
	}
	if c.check == nil {
		return nil
	}
	err := poll(ctx, startLimit, "waiting until it works", func(ctx context.Context) (bool, error) {
		if err := m.checkRunning(c.name); err != nil {
			return false, stop(err)
		}
		err := c.check(ctx)
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("starting %s on %s: %w", c.name, m.name, err)
	}
	return nil
}

func (m *Machine) spawn(c component) error {
	cmd := exec.Command(c.path, c.args...)
	cmd.Env = c.env
	start := func() error { return m.enter(machineNamespaces, cmd.Start) }
	if err := m.launch(cmd, c.name, start); err != nil {
		return err
	}
	p, err := identify(strconv.Itoa(cmd.Process.Pid))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("it ended at once:\n%s", m.logTail(c.name))
	}
	if err != nil {
		return err
	}
	return p.write(m.pidFile(c.name))
}

// Running reports whether a component's process exists.
func (m *Machine) Running(name string) bool {
	p, err := readProcess(m.pidFile(name))
	return err == nil && p.alive()
}

// checkRunning returns an error for the first component that does not run, with the end of
// its log.
func (m *Machine) checkRunning(names ...string) error {
	for _, name := range names {
		if !m.Running(name) {
			return fmt.Errorf("%s on %s has ended; the last lines of its log are\n%s", name, m.name, m.logTail(name))
		}
	}
	return nil
}

// Kill sends a signal to a component. After SIGTERM and SIGKILL it waits until the process
// has ended. It kills a process that does not obey SIGTERM in time.
func (m *Machine) Kill(ctx context.Context, name string, signal unix.Signal) error {
	p, err := readProcess(m.pidFile(name))
	if err != nil {
		return fmt.Errorf("signalling %s on %s: %w", name, m.name, err)
	}
	if signal == unix.SIGTERM || signal == unix.SIGKILL {
		err = p.end(ctx, signal, stopLimit)
	} else {
		err = p.signal(signal)
	}
	if err != nil {
		return fmt.Errorf("signalling %s on %s: %w", name, m.name, err)
	}
	return nil
}

// Slow lets a component run for a fifth of the time only, until end, which returns the error that has ended it before.
func (m *Machine) Slow(name string) (end func() error) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil && ctx.Err() == nil {
			err = m.Kill(context.WithoutCancel(ctx), name, unix.SIGSTOP)
			time.Sleep(240 * time.Millisecond)
			err = errors.Join(err, m.Kill(context.WithoutCancel(ctx), name, unix.SIGCONT))
			time.Sleep(60 * time.Millisecond)
		}
		ended <- err
	}()
	return func() error { stop(); return <-ended }
}

// Restart ends a component in an orderly way and starts it again.
func (m *Machine) Restart(ctx context.Context, name string) error {
	if err := m.Kill(ctx, name, unix.SIGTERM); err != nil {
		return err
	}
	return m.StartComponent(ctx, name)
}

// Log returns the output of a component so far.
func (m *Machine) Log(name string) ([]byte, error) { return os.ReadFile(m.logFile(name)) }

func (m *Machine) logTail(name string) string {
	content, err := m.Log(name)
	if err != nil {
		return err.Error()
	}
	return tail(content, 10)
}

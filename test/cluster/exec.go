package cluster

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// enter runs fn in some of the machine's namespaces.
func (m *Machine) enter(namespaces int, fn func() error) error {
	p, err := m.initProcess()
	if err != nil {
		return err
	}
	fd, err := p.open()
	if err != nil {
		return fmt.Errorf("entering %s: %w", m.name, err)
	}
	defer unix.Close(fd)
	return enter(fd, namespaces, fn)
}

// Command prepares a program to be run in the machine by Run. The cluster's
// own programs, such as ctr and kubectl, are found by name.
func (m *Machine) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	for _, folder := range m.artifacts.programFolders() {
		path := filepath.Join(folder, name)
		if _, err := os.Stat(path); err == nil && !strings.Contains(name, "/") {
			name = path
			break
		}
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = m.env
	return cmd
}

// Run runs a command in the machine's namespaces and waits for it.
func (m *Machine) Run(cmd *exec.Cmd) error {
	if cmd.Dir == "" {
		// Entering the machine leads to its root directory.
		if dir, err := os.Getwd(); err == nil {
			cmd.Dir = dir
		}
	}
	if err := m.enter(machineNamespaces, cmd.Start); err != nil {
		return err
	}
	return cmd.Wait()
}

// Exec runs a program in the machine and returns what it prints. What it
// prints on stderr is part of the error.
func (m *Machine) Exec(ctx context.Context, name string, args ...string) ([]byte, error) {
	return m.output(m.Command(ctx, name, args...))
}

func (m *Machine) output(cmd *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := m.Run(cmd); err != nil {
		what := strings.Join(append([]string{filepath.Base(cmd.Path)}, cmd.Args[1:]...), " ")
		return stdout.Bytes(), fmt.Errorf("running %q on %s: %w: %s", what, m.name, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// Dial connects to an address from inside the machine's network.
func (m *Machine) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := m.enter(unix.CLONE_NEWNET, func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Machine is one computer of the cluster: a set of namespaces that a first
// process holds, and a folder that is its disk. The zero value is not usable.
type Machine struct {
	namespaces
	logs       string
	group      cgroup
	components []component
	folders    map[string]string // path in the machine → folder on its disk
	files      []bind
	writable   []string   // if the root file system is read-only: what else is not
	held       []*os.File // what the first process has open until the machine ends
}

// boot creates the machine's namespaces. The caller connects its network and starts its
// components.
func (m *Machine) boot(ctx context.Context) error {
	if err := m.group.create(); err != nil {
		return err
	}
	config, err := m.writeConfig()
	if err != nil {
		return fmt.Errorf("preparing the disk of %s: %w", m.name, err)
	}
	if err := m.startInit(ctx, config); err != nil {
		return fmt.Errorf("booting %s: %w", m.name, err)
	}
	return nil
}

// writeConfig creates the folders on the machine's disk and writes the list of their
// mounts.
func (m *Machine) writeConfig() (path string, err error) {
	config := machineConfig{
		Hostname: m.name,
		PIDFile:  m.pidFile(initName),
		Scratch:  filepath.Join(m.folder, "scratch"),
		Files:    m.files,
		Writable: m.writable,
	}
	for target, source := range m.folders {
		config.Folders = append(config.Folders, bind{Source: source, Target: target})
		if err := os.MkdirAll(source, 0o755); err != nil {
			return "", err
		}
	}
	for _, dir := range []string{config.Scratch, m.logs} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	content, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return "", err
	}
	path = filepath.Join(m.folder, "machine.json")
	return path, os.WriteFile(path, content, 0o600)
}

// startInit starts the first process and waits until it reports.
func (m *Machine) startInit(ctx context.Context, config string) error {
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reader.Close()
	cmd := exec.Command(filepath.Join(m.artifacts.Tool, "nadra-cluster"), "machine", config)
	cmd.ExtraFiles = append([]*os.File{writer}, m.held...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: machineNamespaces}
	err = m.launch(cmd, initName, cmd.Start)
	writer.Close()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = reader.SetReadDeadline(time.Now()) })
	defer stop()
	report, err := io.ReadAll(reader)
	if err != nil {
		return fmt.Errorf("waiting for its report: %w", err)
	}
	if string(report) != ready {
		return fmt.Errorf("setting it up: %s", report)
	}
	return nil
}

// launch starts a process that outlives this one, in a session of its own and with a log
// file. Its environment is the machine's and the command's.
func (m *Machine) launch(cmd *exec.Cmd, name string, start func() error) error {
	log, err := os.OpenFile(m.logFile(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = slices.Concat(m.env, cmd.Env)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if err := start(); err != nil {
		return err
	}
	// This process is the parent and has to reap it. A PID namespace does not end before
	// all its processes are reaped.
	go cmd.Wait() //nolint:errcheck // its end is noticed by its PID
	return nil
}

func (m *Machine) logFile(name string) string { return filepath.Join(m.logs, name+".log") }

// powerOff kills all processes of the machine at once, like a loss of power. Its disk
// stays.
func (m *Machine) powerOff(ctx context.Context) error {
	p, err := readProcess(m.pidFile(initName))
	if err == nil {
		err = p.endNamespace(ctx)
	}
	if err != nil && !errors.Is(err, errNotRunning) {
		return fmt.Errorf("stopping machine %s: %w", m.name, err)
	}
	return m.group.remove(ctx)
}

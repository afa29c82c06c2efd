package cluster

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// namespaces has the namespaces of a machine, which its first process holds. Its methods
// run commands in the machine, open its network and find its files.
type namespaces struct {
	name      string
	folder    string // disk, PID files, configuration
	artifacts Artifacts
	env       []string // of everything that runs in the machine
}

// Name returns the machine's host name, which is the node's name in the cluster.
func (n namespaces) Name() string { return n.name }

// pidFile returns the path of a process' PID file.
func (n namespaces) pidFile(name string) string { return filepath.Join(n.folder, name+".pid") }

// initName is the first process' name in the names of files.
const initName = "init"

// initProcess returns the first process.
func (n namespaces) initProcess() (process, error) {
	p, err := readProcess(n.pidFile(initName))
	if err != nil {
		return process{}, fmt.Errorf("finding machine %s: %w", n.name, err)
	}
	return p, nil
}

// isUp reports whether the machine runs.
func (n namespaces) isUp() bool {
	p, err := n.initProcess()
	return err == nil && p.hasNamespaces()
}

// enter runs fn in some of the machine's namespaces.
func (n namespaces) enter(namespaces int, fn func() error) error {
	p, err := n.initProcess()
	if err != nil {
		return err
	}
	fd, err := p.open()
	if err != nil {
		return fmt.Errorf("entering %s: %w", n.name, err)
	}
	defer unix.Close(fd)
	return enter(fd, namespaces, fn)
}

// Command returns a command for Run. It finds the cluster's own programs, such as ctr and
// kubectl, by name.
func (n namespaces) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	for _, folder := range n.artifacts.programFolders() {
		path := filepath.Join(folder, name)
		if _, err := os.Stat(path); err == nil && !strings.Contains(name, "/") {
			name = path
			break
		}
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = n.env
	return cmd
}

// Run runs a command in the machine's namespaces and waits for it.
func (n namespaces) Run(cmd *exec.Cmd) error {
	if cmd.Dir == "" {
		// Entering the machine leads to its root directory.
		if dir, err := os.Getwd(); err == nil {
			cmd.Dir = dir
		}
	}
	if err := n.enter(machineNamespaces, cmd.Start); err != nil {
		return err
	}
	return cmd.Wait()
}

// Exec runs a program in the machine and returns its standard output. The error has its
// standard error output.
func (n namespaces) Exec(ctx context.Context, name string, args ...string) ([]byte, error) {
	return n.output(n.Command(ctx, name, args...))
}

// output runs a command and returns its standard output.
func (n namespaces) output(cmd *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := n.Run(cmd); err != nil {
		what := strings.Join(append([]string{filepath.Base(cmd.Path)}, cmd.Args[1:]...), " ")
		return stdout.Bytes(), fmt.Errorf("running %q on %s: %w: %s", what, n.name, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// Dial connects to an address from inside the machine's network.
func (n namespaces) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := n.enter(unix.CLONE_NEWNET, func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// getHealth asks a server of the machine, which may listen on the loopback alone.
func (n namespaces) getHealth(ctx context.Context, url string) error {
	transport := &http.Transport{DialContext: n.Dial, DisableKeepAlives: true}
	return get(ctx, &http.Client{Transport: transport, Timeout: 5 * time.Second}, url, nil)
}

// network opens the machine's network. The caller closes it.
func (n namespaces) network() (network, error) {
	p, err := n.initProcess()
	if err != nil {
		return network{}, err
	}
	ns, err := netns.GetFromPid(p.pid)
	if err != nil {
		return network{}, fmt.Errorf("opening the network of %s: %w", n.name, err)
	}
	handle, err := netlink.NewHandleAt(ns)
	if err != nil {
		ns.Close()
		return network{}, fmt.Errorf("opening the network of %s: %w", n.name, err)
	}
	return network{Handle: handle, ns: ns}, nil
}

// HostPath returns the path, outside, of a path inside the running machine. It is valid
// until the next reboot.
func (n namespaces) HostPath(path string) (string, error) {
	p, err := n.initProcess()
	if err != nil {
		return "", err
	}
	if !n.isUp() {
		return "", fmt.Errorf("finding %s on %s: %w", path, n.name, errNotRunning)
	}
	// Through /proc an absolute link would lead out of the machine; this is
	// the one that matters.
	path = filepath.Clean("/" + path)
	if rest, ok := strings.CutPrefix(path, "/var/run"); ok && (rest == "" || rest[0] == '/') {
		path = "/run" + rest
	}
	return fmt.Sprintf("/proc/%d/root%s", p.pid, path), nil
}

//go:build e2e

package faults

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	// stateDir is the driver's directory, on a file system of its own that can be filled.
	stateDir = "/var/lib/nadra"
	// stateImage is the file that this file system is in.
	stateImage = "state.ext4"
	// suiteDir has the files that the suite and its pods write on the node.
	suiteDir = "/var/lib/nadra-faults"
	// pluginDir has the node's CNI plugins.
	pluginDir = "/opt/cni/bin"
	// master is the interface that macvlans are made on.
	master = "flt0"
)

// prepareNode returns a function that prepares a node, in the run folder dir, at every
// boot. Everything that it mounts is on the node's disk, in that folder, and so survives
// the boot.
func prepareNode(dir string) func(context.Context, *cluster.Node) error {
	return func(ctx context.Context, n *cluster.Node) error {
		_, err := n.Exec(ctx, "sh", "-c", fmt.Sprintf(`set -e
			if [ ! -d %[1]s ]; then
				mkdir -p %[1]s/orders %[1]s/suite
				truncate -s 16M %[1]s/%[6]s
				mkfs.ext4 -q -m 0 %[1]s/%[6]s
			fi
			mkdir -p %[3]s %[4]s
			mount -o loop %[1]s/%[6]s %[2]s
			mount --bind %[1]s/orders %[3]s
			mount --bind %[1]s/suite %[4]s
			ip link add %[5]s type veth peer name %[5]sp
			ip link set %[5]s up
			ip link set %[5]sp up
		`, disk(dir, n), stateDir, failpoint.Dir, suiteDir, master, stateImage))
		if err != nil {
			return fmt.Errorf("preparing the node for faults: %w", err)
		}
		return nil
	}
}

// disk returns the folder, in the run folder dir, of the files that are mounted on the
// node. It exists also while the node is off.
func disk(dir string, n *cluster.Node) string { return filepath.Join(dir, n.Name(), "faults") }

// failPointFile returns the file by which the driver gets an order, "kill" or "off".
func failPointFile(n *cluster.Node, what, name string) string {
	return filepath.Join(disk(theLab.Cluster.Dir(), n), "orders", what, name)
}

// suiteFile returns a file below suiteDir.
func suiteFile(n *cluster.Node, name ...string) string {
	return filepath.Join(disk(theLab.Cluster.Dir(), n), "suite", filepath.Join(name...))
}

// order writes a file that a program on the node reads; without content it removes the
// file.
func order(path, content string) error {
	if content == "" {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}

// sh runs a command on the node.
func sh(ctx context.Context, n *cluster.Node, command string) error {
	_, err := n.Exec(ctx, "sh", "-c", command)
	return err
}

// kill signals a process by its PID on the node. It ignores that the process has just
// ended.
func kill(ctx context.Context, n *cluster.Node, signal, pid string) error {
	return sh(ctx, n, fmt.Sprintf("kill -%s %s || [ ! -d /proc/%s ]", signal, pid, pid))
}

// plugins returns the PIDs of the CNI plugins that the driver runs.
func plugins(n *cluster.Node) ([]string, error) {
	parent, err := lab.DriverPID(n)
	if err != nil {
		return nil, err
	}
	proc, err := n.HostPath("/proc")
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(proc, parent, "task/*/children"))
	if err != nil {
		return nil, err
	}
	var pids []string
	for _, file := range files {
		children, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		pids = append(pids, strings.Fields(string(children))...)
	}
	return pids, nil
}

package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nadra-dev/nadra/test/cluster"
)

// Container is a container as its OCI configuration describes it.
type Container struct {
	ID, Name, Namespace, Pod, PodUID, Sandbox string
	// IsSandbox is set for the container that holds the pod's namespaces.
	IsSandbox bool
	// Gated is set for a container that nadra's gate holds.
	Gated bool
	// Created is when the runtime wrote the configuration.
	Created time.Time
}

// Containers lists the containers of a node. It reads the runtime's own files
// and asks neither nadra nor the API server.
type Containers struct {
	node  *cluster.Node
	known map[string]Container
}

// NewContainers returns a lister of a node's containers.
func NewContainers(n *cluster.Node) *Containers {
	return &Containers{node: n, known: map[string]Container{}}
}

// List returns all containers that the node has now. A configuration is read
// once; List must not be called concurrently.
func (c *Containers) List() []Container {
	bundles := c.node.Runtime().Bundles()
	dir, err := c.node.HostPath(bundles.Dir)
	if err != nil {
		return nil // the node is booting
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // nothing was started since the boot
	}
	var out []Container
	for _, e := range entries {
		at, known := c.known[e.Name()]
		if !known {
			if at, err = readContainer(dir, e.Name(), bundles); err != nil {
				continue // it is being created or removed
			}
			c.known[e.Name()] = at
		}
		out = append(out, at)
	}
	return out
}

func readContainer(dir, id string, bundles cluster.Bundles) (Container, error) {
	file := filepath.Join(dir, id, bundles.Config)
	content, err := os.ReadFile(file)
	if err != nil {
		return Container{}, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return Container{}, err
	}
	var config struct {
		Annotations map[string]string
		Hooks       struct{ CreateRuntime []struct{ Path string } }
	}
	if err := json.Unmarshal(content, &config); err != nil {
		return Container{}, err
	}
	a := config.Annotations
	return Container{
		ID: id, Name: a[bundles.Name], Namespace: a[bundles.Namespace], Pod: a[bundles.Pod], PodUID: a[bundles.PodUID],
		Sandbox: a[bundles.Sandbox], IsSandbox: a[bundles.Kind] == "sandbox",
		Gated:   slices.ContainsFunc(config.Hooks.CreateRuntime, func(h struct{ Path string }) bool { return filepath.Base(h.Path) == "nadra-gate" }),
		Created: info.ModTime(),
	}, nil
}

// StartedProcess returns the PID, on the node, of a container's first process.
// ok is false while that process is still runc's: then the container is being
// created, or is held at the gate.
func StartedProcess(n *cluster.Node, id string) (pid string, ok bool) {
	root, err := n.HostPath("/")
	if err != nil {
		return "", false
	}
	bundles := n.Runtime().Bundles()
	content, err := os.ReadFile(filepath.Join(root, bundles.Dir, id, bundles.PID))
	if err != nil {
		return "", false
	}
	pid = strings.TrimSpace(string(content))
	program, err := os.Readlink(filepath.Join(root, "proc", pid, "exe"))
	return pid, err == nil && !strings.Contains(program, "runc")
}

// Processes returns the PIDs of the programs of these names, as the node
// numbers them.
func Processes(n *cluster.Node, names ...string) ([]string, error) {
	proc, err := n.HostPath("/proc")
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(proc + "/[0-9]*/comm")
	if err != nil {
		return nil, err
	}
	var pids []string
	for _, file := range files {
		comm, err := os.ReadFile(file)
		if err == nil && slices.Contains(names, strings.TrimSpace(string(comm))) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids, nil
}

// DriverPID returns the PID of nadra's driver on the node: the youngest of its processes that is no
// probe. One that has handed over may still be there.
func DriverPID(n *cluster.Node) (string, error) {
	pids, err := Processes(n, "nadra-node")
	if err != nil {
		return "", err
	}
	var youngest int
	for _, pid := range pids {
		cmdline, err := n.HostPath("/proc/" + pid + "/cmdline")
		if err != nil {
			return "", err
		}
		text, err := os.ReadFile(cmdline)
		if number, _ := strconv.Atoi(pid); err == nil && strings.Contains(string(text), "\x00--node-name=") {
			youngest = max(youngest, number)
		}
	}
	if youngest == 0 {
		return "", fmt.Errorf("no driver runs on %s", n.Name())
	}
	return strconv.Itoa(youngest), nil
}

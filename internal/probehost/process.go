package probehost

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/probe"
)

// process is one of a pod's.
type process struct {
	pid int
	// inner is its number in its own PID namespace: a container's first process
	// has 1, unless the pod shares its PIDs.
	inner     int
	container string
}

// processes finds those of all pods, by the pods' UIDs. What ends meanwhile is
// passed over.
func processes(root string) (map[string][]process, error) {
	proc := filepath.Join(root, "proc")
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	out := map[string][]process{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		file, err := os.ReadFile(filepath.Join(proc, e.Name(), "cgroup"))
		if err != nil {
			continue
		}
		uid, container, found := probe.CgroupOf(string(file))
		if !found {
			continue
		}
		out[uid] = append(out[uid], process{pid: pid, inner: innerPID(filepath.Join(proc, e.Name(), "status"), pid), container: container})
	}
	return out, nil
}

// innerPID is the last number of the line NSpid of a process' status.
func innerPID(path string, otherwise int) int {
	status, err := os.ReadFile(path)
	if err != nil {
		return otherwise
	}
	for line := range strings.Lines(string(status)) {
		rest, found := strings.CutPrefix(line, "NSpid:")
		if fields := strings.Fields(rest); found && len(fields) > 0 {
			if n, err := strconv.Atoi(fields[len(fields)-1]); err == nil {
				return n
			}
		}
	}
	return otherwise
}

// firstOfEach are the containers' first processes.
func firstOfEach(all []process) map[string]process {
	out := map[string]process{}
	for _, p := range all {
		if other, seen := out[p.container]; !seen || cmp.Or(cmp.Compare(p.inner, other.inner), cmp.Compare(p.pid, other.pid)) < 0 {
			out[p.container] = p
		}
	}
	return out
}

// representative is a process in the pod's network namespace, with that
// namespace. A container may have made others for itself, so that the one in
// which most first processes are counts.
func representative(root string, all []process) (process, string) {
	members := map[string][]process{}
	for _, p := range firstOfEach(all) {
		if ns := namespaceOf(filepath.Join(root, "proc", strconv.Itoa(p.pid))); ns != "" {
			members[ns] = append(members[ns], p)
		}
	}
	var best process
	var chosen string
	for ns, of := range members {
		first := of[0]
		for _, p := range of {
			if p.pid < first.pid {
				first = p
			}
		}
		if chosen == "" || len(of) > len(members[chosen]) || len(of) == len(members[chosen]) && first.pid < best.pid {
			best, chosen = first, ns
		}
	}
	return best, chosen
}

// namespaceOf names the network namespace of a process; empty when it has ended.
func namespaceOf(dir string) string {
	link, err := os.Readlink(filepath.Join(dir, "ns", "net"))
	if err != nil {
		return ""
	}
	return link
}

// environment is what may be told of a process' environment. That of one that
// has ended is empty.
func environment(dir string) (map[string]string, error) {
	content, err := os.ReadFile(filepath.Join(dir, "environ"))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the environment: %w", err)
	}
	return probe.Variables(content), nil
}

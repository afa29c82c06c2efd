package nodecmd

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

	"github.com/nadra-dev/nadra/internal/atomicfile"
	"github.com/nadra-dev/nadra/internal/probe"
)

// process is a process of a pod.
type process struct {
	pid int
	// inner is its PID in its own PID namespace. It is 1 for a container's first process,
	// unless the pod shares the namespace.
	inner     int
	container string
}

// processes returns the processes of all pods, by the pods' UIDs. It skips processes that
// end meanwhile.
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

// innerPID returns the last number in the line NSpid of a process's status.
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

// firstOfEach returns the first process of each container.
func firstOfEach(all []process) map[string]process {
	out := map[string]process{}
	for _, p := range all {
		if other, seen := out[p.container]; !seen || cmp.Or(cmp.Compare(p.inner, other.inner), cmp.Compare(p.pid, other.pid)) < 0 {
			out[p.container] = p
		}
	}
	return out
}

// representative returns a process in the pod's network namespace, and that namespace. A
// container may have created others, so the namespace of most first processes counts.
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

// namespaceOf returns the name of a process's network namespace, or "" if it has ended.
func namespaceOf(dir string) string {
	link, err := os.Readlink(filepath.Join(dir, "ns", "net"))
	if err != nil {
		return ""
	}
	return link
}

// maxEnvironment limits the bytes of an environment. A program can only be started with less, but may name
// terabytes of its own memory as its environment later (prctl, PR_SET_MM_MAP).
const maxEnvironment = 8 << 20

// environment returns the variables of a process that may be reported. A process that has
// ended has none.
func environment(dir string) (map[string]string, error) {
	content, err := atomicfile.Read(filepath.Join(dir, "environ"), maxEnvironment)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the environment: %w", err)
	}
	return probe.Variables(content), nil
}

//go:build e2e

package faults

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// sampling is the pause between two samples of all containers.
const sampling = 150 * time.Millisecond

// finding is a container that ran without one of its pod's interfaces.
type finding struct {
	pod, container, missing string
	// evidence describes how the checker knows.
	evidence string
	// id is the container's, and gated is set if nadra's gate has held it, as far as that is known.
	id    string
	gated bool
}

// checker watches all the time for containers of a namespace's pods that lack an interface.
// It reads the runtime's own files and the kernel's, and asks neither nadra nor the API
// server.
type checker struct {
	node      *cluster.Node
	namespace string

	mu         sync.Mutex
	containers *lab.Containers
	started    map[string]bool
	findings   map[string]finding // by pod and container, and its ID
	samples    int
}

func newChecker(n *cluster.Node, namespace string) *checker {
	return &checker{
		node: n, namespace: namespace,
		containers: lab.NewContainers(n), started: map[string]bool{}, findings: map[string]finding{},
	}
}

// run samples until ctx ends.
func (c *checker) run(ctx context.Context) {
	ticker := time.NewTicker(sampling)
	defer ticker.Stop()
	for {
		c.sample()
		select {
		case <-ctx.Done():
			c.sample()
			return
		case <-ticker.C:
		}
	}
}

func (c *checker) sample() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.samples++
	for _, at := range c.containers.List() {
		if at.IsSandbox || at.Namespace != c.namespace {
			continue
		}
		pid, ok := lab.StartedProcess(c.node, at.ID)
		if !ok {
			continue
		}
		c.started[at.ID] = true
		missing := c.missing(pid, wanted(at.Pod))
		if missing == "" {
			continue
		}
		// A process that has just ended is no longer in its namespace, and seems to have no
		// interface. Only processes that still exist count.
		if again, ok := lab.StartedProcess(c.node, at.ID); ok && again == pid && c.missing(pid, wanted(at.Pod)) != "" {
			c.add(finding{pod: at.Pod, container: at.Name, missing: missing, id: at.ID, evidence: fmt.Sprintf(
				"at %s the checker saw process %s of container %.12s run in sandbox %.12s", time.Now().Format(clock), pid, at.ID, at.Sandbox)})
		}
	}
	c.readReports()
}

// add records a finding, once for each container, because the checker sees most of them and the containers report
// them, too. One of the next pod of that name is another, which may have another cause.
func (c *checker) add(f finding) {
	key := f.pod + "/" + f.container + "/" + f.id
	if _, known := c.findings[key]; known {
		return
	}
	for _, at := range c.containers.List() { // unless it has gone already
		if at.ID == f.id {
			f.gated = at.Gated
			f.evidence += fmt.Sprintf("; it was created at %s, gated=%t", at.Created.Format(clock), at.Gated)
		}
	}
	f.evidence += fmt.Sprintf("; container %.12s", f.id)
	c.findings[key] = f
}

// readReports adds the findings that the containers report themselves.
func (c *checker) readReports() {
	content, err := os.ReadFile(suiteFile(c.node, reports))
	if err != nil {
		return // nothing was reported
	}
	for line := range strings.Lines(string(content)) {
		if f := strings.Fields(line); len(f) >= 5 {
			c.add(finding{pod: f[0], container: f[1], missing: f[2], id: strings.Join(f[5:], ""), evidence: fmt.Sprintf(
				"the container found out itself when it started, at %s, and saw %s", f[3], f[4])})
		}
	}
}

// missing returns which of net1, net2, … are not in the process' network namespace, which
// /proc/PID/net shows. It returns "" for a process that has ended.
func (c *checker) missing(pid string, want int) string {
	path, err := c.node.HostPath("/proc/" + pid + "/net/dev")
	if err != nil {
		return ""
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	var there, missing []string
	for line := range strings.Lines(string(content)) {
		if name, _, found := strings.Cut(line, ":"); found {
			there = append(there, strings.TrimSpace(name))
		}
	}
	for i := 1; i <= want; i++ {
		if name := fmt.Sprintf("net%d", i); !slices.Contains(there, name) {
			missing = append(missing, name)
		}
	}
	return strings.Join(missing, ",")
}

// all returns the findings so far.
func (c *checker) all() []finding {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]finding, 0, len(c.findings))
	for _, key := range slices.Sorted(maps.Keys(c.findings)) {
		out = append(out, c.findings[key])
	}
	return out
}

// seen returns how much the checker has sampled. A checker that has seen nothing proves
// nothing.
func (c *checker) seen() (samples, containers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.samples, len(c.started)
}

// sandboxes returns the pods of the namespace's sandboxes, by the sandbox's ID: those with a
// pause process, if the runtime makes one.
func (c *checker) sandboxes() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	pauses := c.node.Runtime().Bundles().Pause
	out := map[string]string{}
	for _, at := range c.containers.List() {
		if !at.IsSandbox || at.Namespace != c.namespace {
			continue
		}
		if _, ok := lab.StartedProcess(c.node, at.ID); ok || !pauses {
			out[at.ID] = at.Pod
		}
	}
	return out
}

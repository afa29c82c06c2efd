//go:build e2e

package upgrade

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/desk/upgrade"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// fault is something that goes wrong during an upgrade.
type fault string

// The faults.
const (
	killed       fault = "killed"               // kubectl nadra gets SIGKILL
	apiAway      fault = "API server away"      // it does not run, or does not answer
	diskFull     fault = "disk full"            // the driver cannot write to its directory
	crashLooping fault = "driver crash-looping" // the node's driver is killed each time it starts
	nodeLost     fault = "node lost"            // the node has no power for a while
)

var faults = []fault{killed, apiAway, diskFull, crashLooping, nodeLost}

const (
	// brief is how long most faults last, which an upgrade survives in most steps.
	brief = 8 * time.Second
	// long is how long the API server is away once: longer than the upgrade can keep its Lease, and than
	// a node can be silent. Other faults of this length last until the upgrade stops.
	long = 2 * time.Minute
)

// strike makes a fault happen while a command runs, and ends the fault. If the upgrade is to be rolled
// back, it interrupts the command before.
func (m *matrix) strike(c cell, run *command) {
	m.Helper()
	if c.fault == killed {
		_ = run.cmd.Process.Kill() // it may have ended
		<-run.ended
		return
	}
	map[fault]func(while func()){
		apiAway: m.stopAPIServer, diskFull: m.fillDisk, crashLooping: m.crashDriver, nodeLost: m.losePower,
	}[c.fault](func() {
		m.lasts(c, run)
		if c.end != resume {
			_ = run.cmd.Process.Signal(unix.SIGINT) // it may have ended
		}
	})
	<-run.ended
}

// needsDriver are the steps in which the driver must do something before the upgrade goes on.
var needsDriver = []upgrade.Step{upgrade.Unconfigure, upgrade.Adopt, upgrade.Serve, upgrade.Verify, upgrade.Release}

// lasts waits until a fault is over, which it is when the command has ended, except for the long absence of
// the API server. What keeps the driver from doing its part lasts until the upgrade stops.
func (m *matrix) lasts(c cell, run *command) {
	length, ended := brief, run.ended
	switch {
	case c.fault == apiAway && m.long:
		m.long = false
		length, ended = long, nil
	case slices.Contains([]fault{diskFull, crashLooping}, c.fault) && c.end == resume && slices.Contains(needsDriver, c.step):
		length = long
	}
	select {
	case <-ended:
	case <-time.After(length):
	case <-m.Ctx.Done():
	}
}

// stopAPIServer kills the API server. The first time it freezes it instead, for a long time, in which
// requests get no answer.
func (m *matrix) stopAPIServer(while func()) {
	m.Helper()
	control := m.Cluster.ControlPlane()
	if !m.long {
		m.Must(control.Kill(m.Ctx, cluster.APIServer, unix.SIGKILL))
		while()
		m.Must(control.StartComponent(m.Ctx, cluster.APIServer))
		return
	}
	m.Must(control.Kill(m.Ctx, cluster.APIServer, unix.SIGSTOP))
	while()
	m.Must(control.Kill(context.WithoutCancel(m.Ctx), cluster.APIServer, unix.SIGCONT))
}

// fillDisk fills the file system of the driver's directory.
func (m *matrix) fillDisk(while func()) {
	m.Helper()
	path, err := m.node(m.moves).HostPath(stateDir + "/.filler")
	m.Must(err)
	filler, err := os.Create(path)
	m.Must(err)
	defer filler.Close()
	for size := 1 << 20; size > 0 && err == nil; { // also what is smaller than a block of the file system
		if _, err = filler.Write(make([]byte, size)); errors.Is(err, unix.ENOSPC) {
			size, err = size/16, nil
		}
	}
	m.Must(err)
	while()
	m.Must(os.Remove(path))
}

// crashDriver kills the node's driver whenever it runs. In the end somebody repairs it, and replaces its
// pod, which would wait for the end of its back-off.
func (m *matrix) crashDriver(while func()) {
	m.Helper()
	n := m.node(m.moves)
	ctx, cancel := context.WithCancel(m.Ctx)
	defer cancel()
	var killing sync.WaitGroup
	killing.Go(func() {
		for ctx.Err() == nil {
			for _, pid := range drivers(n) {
				_, _ = n.Exec(ctx, "kill", "-9", pid) // it may have ended
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	while()
	cancel()
	killing.Wait()
	m.Kubectl("-n", "nadra", "delete", "pods", "-l", "app.kubernetes.io/name=nadra-node", "--field-selector=spec.nodeName="+n.Name(), "--timeout=60s")
}

// drivers returns the PIDs of nadra's driver on a node. Other processes of its program have other arguments.
func drivers(n *cluster.Node) []string {
	pids, err := lab.Processes(n, "nadra-node")
	proc, pathErr := n.HostPath("/proc")
	if err != nil || pathErr != nil {
		return nil
	}
	var out []string
	for _, pid := range pids {
		if args, err := os.ReadFile(filepath.Join(proc, pid, "cmdline")); err == nil && strings.Contains(string(args), "--node-name=") {
			out = append(out, pid)
		}
	}
	return out
}

// losePower cuts the node's power for a while. Only pods of the other node are expected to lose no packet.
func (m *matrix) losePower(while func()) {
	m.Helper()
	m.stop(m.moves)
	m.Must(cluster.LosePower(m.Ctx, m.node(m.moves), while))
}

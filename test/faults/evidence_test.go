//go:build e2e

package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// keepDriverLogs links the logs of all the driver's processes to second names, because the
// kubelet removes all but the last two.
func keepDriverLogs(logs string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		kept := filepath.Join(logs, "driver")
		if err := os.MkdirAll(kept, 0o755); err != nil {
			fmt.Fprintln(os.Stderr, "keeping the driver's logs:", err)
			return
		}
		for pause(ctx, 500*time.Millisecond) {
			files, _ := filepath.Glob(filepath.Join(logs, "node-1/pods/nadra_nadra-node-*/nadra-node/*.log"))
			for _, f := range files {
				pod := filepath.Base(filepath.Dir(filepath.Dir(f)))
				_ = os.Link(f, filepath.Join(kept, strings.TrimPrefix(pod, "nadra_")[:16]+"-"+filepath.Base(f))) // or it exists already
			}
		}
	}()
	return cancel
}

// saveLogs copies all logs to a folder that outlives the cluster.
func saveLogs() {
	saved, err := theLab.Cluster.SaveLogs("faults")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	fmt.Fprintln(os.Stderr, "all logs are in", saved)
}

// runtimeLog returns the log of the node's container runtime so far.
func (s *suite) runtimeLog() (string, error) {
	log, err := os.ReadFile(filepath.Join(s.Cluster.LogDir(), "node-1", s.node.Runtime().Name()+".log"))
	return string(log), err
}

// explain prints a pod's state, its Events, and the lines about it in the logs of all the
// driver's processes. It does not do so by the test's log, of whose lines the lane repeats each at its end.
func (s *suite) explain(pod string) {
	print := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), 20*time.Second)
	defer cancel()
	if p := s.pod(pod); p != nil {
		print("pod %s: %s", pod, state(p))
	}
	print("events of pod %s:\n  %s", pod, strings.Join(lastOf(s.Events(ctx, s.ns, pod), 15), "\n  "))
	out, _ := exec.CommandContext(ctx, "grep", "-E", "\""+pod+"(-[0-9]+)?\"", auditLog()).Output() // and for its claims
	print("requests for pod %s:\n  %s", pod, strings.Join(lastOf(strings.Split(strings.TrimSpace(string(out)), "\n"), 6), "\n  "))
	// The logs are many text files, for which grep is the quickest.
	out, _ = exec.CommandContext(ctx, "grep", "-rhF", s.ns+"/"+pod, filepath.Join(s.Cluster.LogDir(), "driver")).Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines) // they begin with their time
	print("the driver on pod %s:\n  %s", pod, strings.Join(lastOf(lines, 40), "\n  "))
}

// races returns the reports of the race detector, with which the suite's driver is built,
// in the logs of all the driver's processes.
func races(logs string) error {
	out, err := exec.Command("grep", "-rhF", "-A", "40", "WARNING: DATA RACE", filepath.Join(logs, "driver")).Output()
	var nothing *exec.ExitError
	if errors.As(err, &nothing) && nothing.ExitCode() == 1 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for data races: %w", err)
	}
	return fmt.Errorf("the driver has data races:\n%s", out)
}

func lastOf(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }

//go:build e2e

// Package faults is the fault suite: pods come and go on a real cluster while everything
// around them fails, by a schedule that is drawn from a seed. A checker that is independent
// of nadra's code watches all the time: no container may ever run without one of its pod's
// interfaces. In the end all remaining pods must work, and deleted pods must have left
// nothing. Further tests edit running pods while everything fails, and let the driver die at
// each point at which it takes over pods of Multus. The package has only tests.
//
//	FAULT_PODS          how many pods, 150 by default
//	FAULT_SEED          which schedule; drawn and printed by default
//	FAULT_EDITS         how many edits of running pods, 1,000 by default
//	FAULT_HANDLE_LIVES  lives of the test of file descriptors, 100 by default
package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

var (
	// theLab is the cluster of all tests.
	theLab *lab.Lab
	// interrupted ends when a person stops the run.
	interrupted context.Context
	// lastLines has the figures of TestFaults, which are printed last.
	lastLines string
)

func TestMain(m *testing.M) {
	lab.Main("faults", func(ctx context.Context, dir string) int { return run(ctx, dir, m) })
}

func run(ctx context.Context, dir string, m *testing.M) int {
	interrupted = ctx
	var err error
	theLab, err = lab.StartImage(ctx, filepath.Join(lab.Root(), "bin", "faults", "nadra-node.tar"), options(dir), os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the cluster:", err)
		return 1
	}
	stopKeeping := keepDriverLogs(theLab.Cluster.LogDir())
	code := m.Run()
	stopKeeping()
	if err := lab.PrintRan(ctx, theLab.Cluster); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := races(theLab.Cluster.LogDir()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if code != 0 {
		saveLogs()
	}
	if err := theLab.Cluster.Stop(context.WithoutCancel(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the cluster:", err)
		code = 1
	}
	if lastLines != "" {
		fmt.Println(lastLines)
	}
	return code
}

func options(dir string) cluster.Options {
	return cluster.Options{
		Dir:        dir,
		NRITimeout: 2 * time.Second, // the runtime's own default, and the hard case
		KubeletConfig: map[string]any{
			// The driver dies dozens of times in a few minutes. With the usual
			// back-off, up to five minutes, it would soon be dead most of the time.
			"crashLoopBackOff": map[string]any{"maxContainerRestartPeriod": "1s"},
		},
		OnBoot: prepareNode(dir),
	}
}

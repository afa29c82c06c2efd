//go:build e2e

package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/nadra-dev/nadra/test/lab"
	"github.com/nadra-dev/nadra/test/support"
)

var (
	// theLane is the cluster with the guest, of all tests.
	theLane *Lane
	// interrupted ends when a person stops the run.
	interrupted context.Context
	// theSummary counts the cases of all tests.
	theSummary summary
)

// TestMain runs the tests on one guest. NADRA_VM_HOLD keeps the cluster and the guest after
// the tests, for investigation.
func TestMain(m *testing.M) {
	lab.Main("vm", func(ctx context.Context, dir string) int { return runLane(ctx, dir, m) })
}

func runLane(ctx context.Context, dir string, m *testing.M) (code int) {
	interrupted = ctx
	defer func() { fmt.Println(theSummary.line(code != 0)) }()
	var err error
	if theLane, err = Start(ctx, dir, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "starting the cluster with the virtual machine:", err)
		return 1
	}
	if code = m.Run(); code != 0 {
		fmt.Fprintln(os.Stderr, theLane.DriverLog(ctx))
	}
	if err := errors.Join(lab.PrintRan(ctx, theLane.Cluster), printCgroups(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if os.Getenv("NADRA_VM_HOLD") != "" {
		fmt.Fprintln(os.Stderr, "the guest is held, with its files in", dir, "until it is interrupted")
		<-ctx.Done()
	}
	// Logs are saved after a good run as well, for comparison.
	logs, err := theLane.SaveLogs(ctx)
	fmt.Fprintln(os.Stderr, "the logs are in", logs)
	if err != nil {
		fmt.Fprintln(os.Stderr, "saving the logs:", err)
		code = 1
	}
	if err := theLane.Stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the cluster:", err)
		code = 1
	}
	return code
}

// printCgroups prints the version of the guest's control groups, as lab.PrintRan does for other
// nodes.
func printCgroups(ctx context.Context) error {
	if _, err := theLane.Guest.Run(ctx, "cat", "/sys/fs/cgroup/cgroup.controllers"); err != nil {
		return err
	}
	fmt.Println("ran", support.CgroupV2)
	return nil
}

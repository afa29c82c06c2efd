package lab

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/nadra-dev/nadra/test/cluster"
)

// Main is the body of a suite's TestMain. It calls run with a temporary folder
// and with a context that ends when a person stops the run, removes the folder,
// and ends the process with the code that run returns.
func Main(suite string, run func(ctx context.Context, dir string) (code int)) {
	flag.Parse()
	os.Exit(inFolder(suite, run))
}

func inFolder(suite string, run func(ctx context.Context, dir string) int) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "nadra-"+suite+"-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	return run(ctx, dir)
}

// StopAfter stops a suite's cluster, saves its logs first if the suite's code is
// not 0, and returns the code; 1 if the cluster does not stop.
func StopAfter(ctx context.Context, suite string, c *cluster.Cluster, code int) int {
	if code != 0 {
		if logs, err := c.SaveLogs(suite); err == nil {
			fmt.Fprintln(os.Stderr, "logs are in", logs)
		}
	}
	if err := c.Stop(context.WithoutCancel(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the cluster:", err)
		return 1
	}
	return code
}

package lab

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nadra-dev/nadra/test/cluster"
)

// Main is the body of a suite's TestMain. It calls run with a temporary folder
// and with a context that ends when a person stops the run, removes the folder,
// and ends the process with the code that run returns.
func Main(suite string, run func(ctx context.Context, dir string) (code int)) {
	flag.Parse()
	os.Exit(inFolder(suite, run))
}

// interruptTime is how long a run may go on after its interruption: what looks at its context ends in an orderly way, and
// tests of a suite would go on to their own limits.
const interruptTime = 20 * time.Second

// inFolder calls run with a temporary folder and returns its code. A second signal ends the process at once.
func inFolder(suite string, run func(ctx context.Context, dir string) int) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	dir, err := os.MkdirTemp("", "nadra-"+suite+"-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	return untilInterrupted(ctx, func() int { return run(ctx, dir) }, cluster.StopStarted)
}

// untilInterrupted returns the code of run, or 1 if run does not end within interruptTime after the end of ctx. Then
// it calls clean.
func untilInterrupted(ctx context.Context, run func() (code int), clean func(context.Context) error) int {
	ended := make(chan int, 1)
	go func() { ended <- run() }()
	select {
	case code := <-ended:
		return code
	case <-ctx.Done():
	}
	select {
	case code := <-ended:
		return code
	case <-time.After(interruptTime):
	}
	fmt.Fprintln(os.Stderr, "interrupted: stopping the cluster")
	if err := clean(context.WithoutCancel(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the cluster:", err)
	}
	return 1
}

// Suite runs all its tests on one cluster.
type Suite struct {
	// Name names the folder of the logs that a failed run keeps.
	Name string
	// Start starts the cluster, with a temporary folder for its files.
	Start func(ctx context.Context, dir string) (*cluster.Cluster, error)
	// Install prepares the cluster for the tests; nil if Start has done it.
	Install func(ctx context.Context, c *cluster.Cluster) error
	// Tests runs the tests: the Run of a testing.M.
	Tests func() (code int)
	// Finally is called after the cluster has ended; it may be nil.
	Finally func()
}

// Main starts the cluster, installs, runs the tests, stops the cluster and ends the process
// with the tests' code. The logs of the cluster are kept if a test failed.
func (s Suite) Main() { Main(s.Name, s.run) }

// run returns 1 if the tests cannot be run, and otherwise their code.
func (s Suite) run(ctx context.Context, dir string) int {
	c, err := s.Start(ctx, dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the cluster:", err)
		return 1
	}
	if s.Install != nil {
		err = s.Install(ctx, c)
	}
	if err == nil {
		err = PrintRan(ctx, c)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "preparing the cluster:", err)
	} else {
		code = s.Tests()
	}
	code = s.stop(ctx, c, code)
	if s.Finally != nil {
		s.Finally()
	}
	return code
}

// stop stops the cluster, saves its logs first if code is not 0, and returns the code, or 1
// if the cluster does not stop.
func (s Suite) stop(ctx context.Context, c *cluster.Cluster, code int) int {
	if code != 0 {
		if logs, err := c.SaveLogs(s.Name); err == nil {
			fmt.Fprintln(os.Stderr, "logs are in", logs)
		}
	}
	if err := c.Stop(context.WithoutCancel(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the cluster:", err)
		return 1
	}
	return code
}

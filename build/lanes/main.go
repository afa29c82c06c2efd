// Command lanes runs make targets in parallel and reports their times.
//
//	lanes [-logs FOLDER] [-first TARGET] [-clusters N] [-fill TARGETS] [-built TARGETS] TARGET...
//
// The target of -first runs alone and before all others. Then the TARGETs run, N at a
// time, and the targets of -fill run one after another beside them, with a lower
// priority: the TARGETs are tests on clusters, which wait more than they compute. No
// target makes those of -built again.
//
// A target that fails stops only the targets for which it was the first, so one run
// shows all failures. What a target prints is in FOLDER/TARGET.log, and gotestsum's
// events, for a target of tests, in FOLDER/TARGET.json. While the targets run, lanes
// prints failed tests at once and every half minute what each target is at. At the end
// it prints the last lines of each failed target, the summary lines of all targets, what
// failed tests have reported, a table of the targets' times, and the commands that run
// each failed test alone. It exits with 1 if a target failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// plan is what the command line asks for.
type plan struct {
	logs     string
	first    string
	fill     []string
	built    []string
	clusters int
	targets  []string
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == superviseFlag {
		os.Exit(supervise(os.Args[2], os.Args[3:]))
	}
	var p plan
	flag.StringVar(&p.logs, "logs", ".", "the `folder` for what the targets print")
	flag.StringVar(&p.first, "first", "", "the `target` to run before all others")
	fill := flag.String("fill", "", "the `targets` to run one after another beside the others")
	built := flag.String("built", "", "the `targets` that no other target makes again")
	flag.IntVar(&p.clusters, "clusters", 1, "how many targets run at a time, besides that of -fill")
	flag.Parse()
	p.fill, p.built, p.targets = strings.Fields(*fill), strings.Fields(*built), flag.Args()
	if len(p.targets)+len(p.fill) == 0 || p.clusters < 1 {
		fmt.Fprintln(os.Stderr, "lanes: name the make targets to run, and run at least one at a time")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	err := p.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lanes:", err)
		os.Exit(1)
	}
}

// run runs all targets and prints the report. When ctx ends it interrupts the running
// targets, which remove their clusters, and starts no other.
func (p plan) run(ctx context.Context) error {
	if err := os.MkdirAll(p.logs, 0o755); err != nil {
		return fmt.Errorf("making the folder for logs: %w", err)
	}
	board := newBoard(os.Stdout, time.Now)
	stopReporting := board.report(statusInterval)
	defer stopReporting()
	if p.first != "" {
		if err := p.runFirst(ctx, board); err != nil {
			return err
		}
	}
	var workers sync.WaitGroup
	work := func(targets <-chan string, niceness int) {
		workers.Go(func() {
			for target := range targets {
				if ctx.Err() == nil {
					p.runLane(ctx, board, target, niceness)
				}
			}
		})
	}
	work(queue(p.fill), fillNiceness)
	clusters := queue(p.targets)
	for range p.clusters {
		work(clusters, 0)
	}
	workers.Wait()
	lanes := board.ended()
	fmt.Print("\n", endings(lanes), table(lanes, board.since()))
	all := len(p.targets) + len(p.fill)
	if p.first != "" {
		all++
	}
	if failed := countFailed(lanes); failed > 0 || len(lanes) < all {
		return fmt.Errorf("%d of %d lanes failed, %d were not run", failed, all, all-len(lanes))
	}
	return nil
}

// runFirst runs the first target, and returns an error if it fails: the others need
// what it makes.
func (p plan) runFirst(ctx context.Context, board *board) error {
	p.built = nil
	l := p.runLane(ctx, board, p.first, 0)
	if l.err == nil {
		return nil
	}
	fmt.Print("\n", endings([]lane{l}))
	return errors.New("no lane was run")
}

// runLane runs one target, and shows on the board how it goes.
func (p plan) runLane(ctx context.Context, board *board, target string, niceness int) lane {
	args := []string{"--no-print-directory", target}
	for _, built := range p.built {
		args = append(args, "--old-file="+built)
	}
	return runLane(ctx, board, target, filepath.Join(p.logs, target), command{name: "make", args: args, niceness: niceness})
}

// queue returns a closed channel with the targets in their order.
func queue(targets []string) <-chan string {
	out := make(chan string, len(targets))
	for _, target := range targets {
		out <- target
	}
	close(out)
	return out
}

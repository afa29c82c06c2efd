package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/nadra-dev/nadra/internal/multusconf"
)

// awaitLimit limits how long await waits. Its pod has a minute.
const awaitLimit = 40 * time.Second

// runMultus hides, restores or awaits Multus' configuration, and reports what it did.
func runMultus(ctx context.Context, args []string, out io.Writer) error {
	var dirs multusconf.Dirs
	fs := newFlagSet("multus")
	fs.StringVar(&dirs.Conf, "cni-conf-dir", "/etc/cni/net.d", "directory of CNI configurations that the container runtime reads")
	fs.StringVar(&dirs.Kept, "keep-in", "/var/lib/nadra/multus", "directory that keeps Multus' configuration for a rollback")
	if err := parseArgs(fs, args); err != nil {
		return err
	}
	await := func() (multusconf.Report, error) {
		ctx, cancel := context.WithTimeout(ctx, awaitLimit)
		defer cancel()
		return dirs.Await(ctx)
	}
	do := map[string]func() (multusconf.Report, error){"off": dirs.Take, "on": dirs.Give, "await": await}[fs.Arg(0)]
	if do == nil || fs.NArg() != 1 {
		return fmt.Errorf("the arguments are %q: use one of off, on and await", fs.Args())
	}
	report, err := do()
	if err != nil {
		return err
	}
	return writeReport(out, report)
}

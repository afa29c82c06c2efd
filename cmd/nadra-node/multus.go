package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/nadra-dev/nadra/internal/multusconf"
)

// multusAwaits limits how long "await" waits. Its pod has a minute.
const multusAwaits = 40 * time.Second

// runMultus reports what it did.
func runMultus(ctx context.Context, args []string, out io.Writer) error {
	var dirs multusconf.Dirs
	fs := newFlagSet("multus")
	fs.StringVar(&dirs.Conf, "cni-conf-dir", "/etc/cni/net.d", "directory of CNI configurations that the container runtime reads")
	fs.StringVar(&dirs.Kept, "keep-in", "/var/lib/nadra/multus", "directory that keeps Multus' configuration for the way back")
	if err := fs.Parse(args); err != nil {
		return err
	}
	await := func() (multusconf.Report, error) {
		ctx, cancel := context.WithTimeout(ctx, multusAwaits)
		defer cancel()
		return dirs.Await(ctx)
	}
	do := map[string]func() (multusconf.Report, error){"off": dirs.Take, "on": dirs.Give, "await": await}[fs.Arg(0)]
	if do == nil || fs.NArg() != 1 {
		return fmt.Errorf("the arguments are %q: give one of off, on and await", fs.Args())
	}
	report, err := do()
	if err != nil {
		return err
	}
	return writeReport(out, report)
}

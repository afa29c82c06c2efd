package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/nadra-dev/nadra/internal/handover"
)

// multusCommand is the subcommand that `kubectl nadra upgrade` has a pod run on
// a node: "off" takes Multus' configuration away from the container runtime, "on"
// gives it back, and "await" waits until there is one.
const multusCommand = "multus"

// multusAwaits limits how long "await" waits. The pod that runs it has a minute.
const multusAwaits = 40 * time.Second

// runMultus writes what it did as one line of JSON.
func runMultus(ctx context.Context, args []string, w io.Writer) error {
	var dirs handover.Dirs
	fs := flag.NewFlagSet("nadra-node "+multusCommand, flag.ContinueOnError)
	fs.StringVar(&dirs.Conf, "cni-conf-dir", "/etc/cni/net.d", "directory of CNI configurations that the container runtime reads")
	fs.StringVar(&dirs.Kept, "keep-in", "/var/lib/nadra/multus", "directory that keeps Multus' own for the way back")
	if err := fs.Parse(args); err != nil {
		return err
	}
	await := func() (handover.Report, error) {
		ctx, cancel := context.WithTimeout(ctx, multusAwaits)
		defer cancel()
		return dirs.Await(ctx)
	}
	do := map[string]func() (handover.Report, error){"off": dirs.Take, "on": dirs.Give, "await": await}[fs.Arg(0)]
	if do == nil || fs.NArg() != 1 {
		return fmt.Errorf("reading the arguments %q: give one, off, on or await", fs.Args())
	}
	report, err := do()
	if err != nil {
		return err
	}
	if err := json.NewEncoder(w).Encode(report); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

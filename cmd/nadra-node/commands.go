package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/nadra-dev/nadra/internal/canary"
)

// command is a subcommand of nadra-node. kubectl nadra runs each in a pod.
type command struct {
	name, summary string
	// usedBy names the commands of kubectl nadra that run it.
	usedBy string
	// run writes its report to out as lines of JSON.
	run func(ctx context.Context, args []string, out io.Writer) error
}

// commands returns the subcommands. Without one, nadra-node is the driver.
func commands() []command {
	return []command{
		{"probe", "report what the node has: runtime, NRI, CDI, CNI plugins and configurations, or the interfaces of its pods", "doctor --probe, snapshot --from-nodes", runProbe},
		{"cleanup", "report what pods that are gone have left on the node; --apply frees it", "cleanup", runCleanup},
		{"multus", "take Multus' configuration from the container runtime (off), give it back (on), or wait until it is there (await)", "upgrade", runMultus},
		{"uninstall", "report what nadra has on the node; --remove removes it", "uninstall", runUninstall},
		{canary.Command, "answer pings (serve), report the pod's interfaces (look), or ping other canaries (ping)", "verify --canary", runCanary},
	}
}

// run runs the subcommand that the first argument names, or the driver.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return runDriver(ctx, args)
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(ctx, args[1:], out)
		}
	}
	if args[0] == "help" {
		return writeHelp(out)
	}
	return fmt.Errorf("%q is not a command of nadra-node: see nadra-node help", args[0])
}

// writeHelp lists the subcommands.
func writeHelp(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "nadra-node [flags]\tattach pods to networks: the node driver (see nadra-node -h)")
	for _, c := range commands() {
		fmt.Fprintf(w, "nadra-node %s [flags]\t%s (for kubectl nadra %s)\n", c.name, c.summary, c.usedBy)
	}
	return w.Flush()
}

// newFlagSet returns the flags of a subcommand.
func newFlagSet(name string) *flag.FlagSet {
	return flag.NewFlagSet("nadra-node "+name, flag.ContinueOnError)
}

// parseFlags parses arguments that must all be flags.
func parseFlags(fs *flag.FlagSet, args []string) error {
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: %s takes flags only", fs.Arg(0), fs.Name())
	}
	return nil
}

// writeReport writes a report as one line of JSON.
func writeReport(out io.Writer, report any) error {
	if err := json.NewEncoder(out).Encode(report); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// splitList splits a comma-separated list and drops empty items.
func splitList(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

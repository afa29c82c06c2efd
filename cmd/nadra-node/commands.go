package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/internal/version"
)

// command is a subcommand of nadra-node. kubectl nadra runs most in a pod.
type command struct {
	name string
	// args are the arguments for the help text, and summary what the command does.
	args, summary string
	// usedBy names the commands of kubectl nadra that run it; "" for the probes of the driver's pod.
	usedBy string
	// run writes its report to out as lines of JSON.
	run func(ctx context.Context, args []string, out io.Writer) error
}

// commands returns the subcommands. Without one, nadra-node is the driver.
func commands() []command {
	return []command{
		{"health", "[flags] (live | ready | started)", "ask the driver in this container whether its loops turn (live), whether pods with networks can start (ready), or whether it was ready or has run for a minute (started)", "", runHealth},
		{"probe", "[flags]", "report what the node has: runtime, NRI, CDI, CNI plugins and configurations, or the interfaces of its pods", "doctor --probe, snapshot --probe", runProbe},
		{"cleanup", "[flags]", "report what deleted pods have left behind on the node; --apply frees it", "cleanup", runCleanup},
		{"multus", "[flags] (off | on | await | check | adopted | returned)", "hide Multus' configuration from the container runtime (off), restore it (on), or wait until it is there (await); check whether Multus' attachments can be adopted, or wait until they are, or until they are given back", "upgrade", runMultus},
		{"uninstall", "[flags]", "report nadra's files on the node; --remove removes them", "uninstall", runUninstall},
		{probe.CanaryCommand, "(serve | inspect | ping) [flags] [ADDRESS ...]", "answer pings (serve), report the pod's interfaces (inspect), or ping other canaries (ping)", "verify --canary", runCanary},
	}
}

// driverCommand describes nadra-node without a subcommand.
var driverCommand = command{
	args: "[flags]", summary: "publish the node's networks and attach pods to them: the node driver",
	run: func(ctx context.Context, args []string, _ io.Writer) error { return runDriver(ctx, args) },
}

// run runs the subcommand that the first argument names, or the driver. Help is written to
// out and is not an error.
func run(ctx context.Context, args []string, out io.Writer) error {
	if version.Asked(args) {
		return writeVersion(out)
	}
	c, args, err := find(args)
	if err != nil {
		return err
	}
	if c == nil {
		return writeHelp(out)
	}
	err = c.run(ctx, args, out)
	if h := (*helpRequest)(nil); errors.As(err, &h) {
		return c.writeHelp(out, h.flags)
	}
	return err
}

// find returns the command for the arguments, and the command's own arguments. The command
// is nil for help.
func find(args []string) (*command, []string, error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return &driverCommand, args, nil
	}
	name, rest := args[0], args[1:]
	if name == "help" {
		if len(rest) == 0 {
			return nil, nil, nil
		}
		name, rest = rest[0], []string{"-h"} // help probe is probe -h
	}
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == name })
	if i < 0 {
		var names []string
		for _, c := range all {
			names = append(names, c.name)
		}
		return nil, nil, fmt.Errorf("%q is not a command of nadra-node: use one of %s and help, or only flags to run the driver", name, strings.Join(names, ", "))
	}
	return &all[i], rest, nil
}

// writeHelp lists the subcommands.
func writeHelp(out io.Writer) error {
	fmt.Fprintf(out, "%s\n    %s\n", driverCommand.usage(), driverCommand.summary)
	for _, c := range commands() {
		fmt.Fprintf(out, "%s\n    %s (for %s)\n", c.usage(), c.summary, c.user())
	}
	_, err := fmt.Fprint(out, "nadra-node --version\n    "+version.Usage+"\nnadra-node help [COMMAND]\n    print this list, or the flags of a command\nnadra-node -h\n    print the flags of the driver\n")
	return err
}

// writeVersion prints the version of this program.
func writeVersion(out io.Writer) error {
	if _, err := fmt.Fprintln(out, "nadra-node", version.Get()); err != nil {
		return fmt.Errorf("writing the version: %w", err)
	}
	return nil
}

// user returns who runs the command.
func (c command) user() string {
	if c.usedBy == "" {
		return "the probes of the driver's pod"
	}
	return "kubectl nadra " + c.usedBy
}

// usage returns the command line.
func (c command) usage() string {
	return strings.Join(strings.Fields("nadra-node "+c.name+" "+c.args), " ")
}

// writeHelp describes one command and its flags.
func (c command) writeHelp(out io.Writer, fs *flag.FlagSet) error {
	fmt.Fprintf(out, "%s\n\n%s.\n", c.usage(), strings.ToUpper(c.summary[:1])+c.summary[1:])
	if c.name != "" {
		fmt.Fprintf(out, "It is for %s.\n", c.user())
	}
	flags := 0
	fs.VisitAll(func(*flag.Flag) { flags++ })
	if flags == 0 {
		return nil
	}
	fmt.Fprintf(out, "\nFlags of %s:\n", fs.Name())
	fs.SetOutput(out)
	fs.PrintDefaults()
	return nil
}

// helpRequest is the error of arguments that ask for help.
type helpRequest struct{ flags *flag.FlagSet }

// Error implements error.
func (*helpRequest) Error() string { return flag.ErrHelp.Error() }

// newFlagSet returns a set for the flags of a subcommand, or of the driver if name is "".
func newFlagSet(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(strings.TrimSpace("nadra-node "+name), flag.ContinueOnError)
	fs.SetOutput(io.Discard) // standard output is for reports, and run writes help
	return fs
}

// parseArgs parses flags. The caller handles the other arguments.
func parseArgs(fs *flag.FlagSet, args []string) error {
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return &helpRequest{fs}
	case err != nil:
		return fmt.Errorf("%w: %s -h lists the flags", err, fs.Name())
	}
	return nil
}

// parseFlags parses arguments that must all be flags.
func parseFlags(fs *flag.FlagSet, args []string) error {
	if err := parseArgs(fs, args); err != nil {
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

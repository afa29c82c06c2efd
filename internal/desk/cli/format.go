package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nadra-dev/nadra/internal/kube"
)

// choice is the value of a flag that is one of several names.
type choice struct {
	value string
	names []string
}

var _ pflag.Value = (*choice)(nil)

// String implements pflag.Value.
func (c *choice) String() string { return c.value }

// Set implements pflag.Value.
func (c *choice) Set(text string) error {
	if !slices.Contains(c.names, text) {
		return fmt.Errorf("use one of %s", strings.Join(c.names, ", "))
	}
	c.value = text
	return nil
}

// choices returns the names.
func (c *choice) choices() []string { return c.names }

// Type implements pflag.Value.
func (c *choice) Type() string { return "string" }

// formatFlag is the value of -o: one of the formats of a command.
type formatFlag struct{ choice }

// addFlag adds the flag to a command. The first format is the default.
func (f *formatFlag) addFlag(command *cobra.Command, names []string) {
	f.value, f.names = names[0], names
	command.Flags().VarP(f, "output", "o", "output format: "+strings.Join(names, ", "))
}

// The values of --dry-run.
const (
	dryNone   = "none"
	dryClient = "client"
	dryServer = "server"
)

// dryRunFlag is the value of --dry-run, as kubectl has it.
type dryRunFlag struct{ choice }

// addFlag adds the flag, with its modes besides none.
func (d *dryRunFlag) addFlag(flags *pflag.FlagSet, usage string, modes ...string) {
	d.value, d.names = dryNone, append([]string{dryNone}, modes...)
	flags.Var(d, "dry-run", usage)
	flags.Lookup("dry-run").NoOptDefVal = dryClient
}

// on reports whether nothing is to be changed.
func (d *dryRunFlag) on() bool { return d.value != "" && d.value != dryNone }

// mode returns the mode, or "" for none.
func (d *dryRunFlag) mode() kube.DryRun {
	if d.on() {
		return kube.DryRun(d.value)
	}
	return ""
}

// note returns what kubectl adds to a line about a change that is not made.
func (d *dryRunFlag) note() string {
	switch d.mode() {
	case "":
		return ""
	case dryServer:
		return " (server dry run)"
	}
	return " (dry run)"
}

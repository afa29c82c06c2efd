package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// formatFlag is the value of -o: one of the formats of a command.
type formatFlag struct {
	value string
	names []string
}

// addFlag adds the flag to a command. The first format is the default.
func (f *formatFlag) addFlag(command *cobra.Command, names []string) {
	f.value, f.names = names[0], names
	command.Flags().VarP(f, "output", "o", "output format: "+strings.Join(names, ", "))
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

// String implements pflag.Value.
func (f *formatFlag) String() string { return f.value }

// Set implements pflag.Value.
func (f *formatFlag) Set(text string) error {
	if !slices.Contains(f.names, text) {
		return fmt.Errorf("use one of %s", strings.Join(f.names, ", "))
	}
	f.value = text
	return nil
}

// Type implements pflag.Value.
func (f *formatFlag) Type() string { return "string" }

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// usage returns the template of a command's usage, without the flags that choose the cluster: there are
// twenty of them, and all commands have them.
func usage(template string) string {
	before, after, _ := strings.Cut(template, "{{if .HasAvailableInheritedFlags}}")
	_, after, _ = strings.Cut(after, "{{end}}")
	before = strings.Replace(before, "{{if .HasAvailableLocalFlags}}", "{{if and .HasParent .HasAvailableLocalFlags}}", 1)
	return before + `

Use "kubectl nadra options" for the flags that choose the cluster, such as -n and --context.` + after
}

func (a *app) options() *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the flags of all commands, which choose the cluster",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(a.Out, "All commands have these flags, as kubectl has:\n\n%s", command.Root().PersistentFlags().FlagUsages())
			return err
		},
	}
}

// help prints the help of a command, and refuses an unknown one.
func help() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(command *cobra.Command, args []string) error {
			about, rest, err := command.Root().Find(args)
			switch {
			case err != nil:
				return err
			case len(rest) > 0:
				return fmt.Errorf("unknown command %q for %q", rest[0], about.CommandPath())
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// group makes a command of its subcommands. Without a subcommand it prints its help, and it refuses an unknown one.
func group(command *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	command.AddCommand(commands...)
	command.DisableFlagsInUseLine = true
	command.RunE = func(command *cobra.Command, args []string) error {
		if len(args) == 0 {
			return command.Help()
		}
		command.SuggestionsMinimumDistance = 2
		names := command.SuggestionsFor(args[0])
		if len(names) > 0 {
			return fmt.Errorf("unknown command %q for %q: did you mean %s?", args[0], command.CommandPath(), strings.Join(names, " or "))
		}
		for _, c := range command.Commands() {
			if c.IsAvailableCommand() {
				names = append(names, c.Name())
			}
		}
		return fmt.Errorf("unknown command %q for %q: use one of %s", args[0], command.CommandPath(), strings.Join(names, ", "))
	}
	return command
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// leaf makes a command without arguments.
func leaf(use, short, long, examples string, run func(context.Context) error) *cobra.Command {
	command := naming(use, short, long, examples, func(ctx context.Context, _ []string) error { return run(ctx) })
	command.Args = cobra.NoArgs
	return command
}

// naming makes a command whose arguments name objects.
func naming(use, short, long, examples string, run func(ctx context.Context, names []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long, Example: examples,
		RunE: func(command *cobra.Command, args []string) error { return run(command.Context(), args) },
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
		var names []string
		for _, c := range command.Commands() {
			if c.IsAvailableCommand() {
				names = append(names, c.Name())
			}
		}
		if like := meant(args[0], names); like != "" {
			return fmt.Errorf("unknown command %q for %q%s", args[0], command.CommandPath(), like)
		}
		return fmt.Errorf("unknown command %q for %q: use one of %s", args[0], command.CommandPath(), strings.Join(names, ", "))
	}
	return command
}

// meant returns the question whether an unknown word means one of the names, or "" if no name is like it.
func meant(word string, names []string) string {
	all := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, name := range names {
		all.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	like := all.SuggestionsFor(word)
	if len(like) == 0 {
		return ""
	}
	return fmt.Sprintf(": did you mean %s?", strings.Join(like, " or "))
}

// badFlag adds the flags that may have been meant to the error for an unknown one.
func badFlag(command *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	var names []string
	command.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return fmt.Errorf("%w%s", err, meant("--"+unknown.GetSpecifiedName(), names))
}

// completeChoices completes the flags of a command and its subcommands that have a choice of names.
func completeChoices(command *cobra.Command) {
	command.Flags().VisitAll(func(f *pflag.Flag) {
		if v, ok := f.Value.(interface{ choices() []string }); ok {
			_ = command.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(v.choices(), cobra.ShellCompDirectiveNoFileComp))
		}
	})
	for _, c := range command.Commands() {
		completeChoices(c)
	}
}

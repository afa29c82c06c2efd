// Package cli has the commands of kubectl-nadra. They read, call the pure
// packages that decide, and write.
//
// Standard output has data only; findings and progress go to standard error.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	_ "github.com/nadra-dev/nadra/internal/cli/english" // before kubectl's libraries
)

// The exit codes, as users script against them. diff has kubectl's instead.
const (
	CodeOK       = 0
	CodeError    = 1
	CodeWarnings = 2 // only with --fail-on=warning, or --strict
	CodeBlockers = 3
	// CodeRefused is for what is not safe: something is in the way, or in use.
	CodeRefused = 4
	// CodeInterrupted says that the state is saved and it can go on.
	CodeInterrupted = 5
)

const rootHelp = `Move a cluster from Multus to Dynamic Resource Allocation.

Without -f or -k the commands read the live cluster of the current context.
Nothing is changed unless a flag says so.

Exit codes:
  0  nothing to report
  1  error
  2  warnings, with --fail-on=warning or --strict
  3  blockers, unless --fail-on=never
  4  refused or stopped, as it would not be safe
  5  interrupted or paused; the state is saved
diff has those of kubectl diff: 0 no difference, 1 differences, more for errors.`

// Run runs a command line and returns its exit code.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	// What the libraries log is in the errors that they return, too.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	root := newRoot(streams)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	return exitCode(command, err, streams)
}

func newRoot(streams genericiooptions.IOStreams) *cobra.Command {
	root := &cobra.Command{
		Use:          "kubectl-nadra",
		Short:        "Move a cluster from Multus to Dynamic Resource Allocation",
		Long:         rootHelp,
		SilenceUsage: true, SilenceErrors: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl nadra"},
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	flags := genericclioptions.NewConfigFlags(true)
	flags.AddFlags(root.PersistentFlags())
	app := &app{IOStreams: streams, cluster: flags}
	root.AddCommand(
		app.scan(), app.convert(), app.diff(), app.explain(), app.get(), app.doctor(),
		app.snapshot(), app.verify(), app.upgrade(), app.cleanup(), app.uninstall(), app.bundle(), app.version(),
	)
	return root
}

// app is what all commands share.
type app struct {
	genericiooptions.IOStreams
	cluster *genericclioptions.ConfigFlags
}

// contextName is that of the cluster's context, for people.
func (a *app) contextName() string {
	if name := a.cluster.Context; name != nil && *name != "" {
		return *name
	}
	raw, err := a.cluster.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return ""
	}
	return raw.CurrentContext
}

// exitError ends the program with a code; whoever returns it has said why.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func exitCode(command *cobra.Command, err error, streams genericiooptions.IOStreams) int {
	var exit exitError
	switch {
	case err == nil:
		return CodeOK
	case errors.As(err, &exit):
		return int(exit)
	}
	_, _ = fmt.Fprintln(streams.ErrOut, "error:", err)
	if command.Name() == "diff" {
		return diffTrouble
	}
	return CodeError
}

// Package cli implements the commands of kubectl-nadra. They read, call the pure packages that
// decide, and write. Standard output has data only; findings and progress go to standard
// error.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	_ "github.com/nadra-dev/nadra/internal/desk/cli/english" // before kubectl's libraries
	"github.com/nadra-dev/nadra/internal/desk/report"
)

// The exit codes, on which scripts rely. convert --diff has kubectl diff's instead.
const (
	CodeOK       = 0
	CodeError    = 1
	CodeWarnings = 2 // only with --fail-on=warning, or --strict
	CodeBlockers = 3
	// CodeRefused is for an unsafe change: there are obstacles, or nadra is in use.
	CodeRefused = 4
	// CodeInterrupted is for a change that can be continued: its state is saved.
	CodeInterrupted = 5
)

const rootHelp = `Move a cluster from Multus to Dynamic Resource Allocation.

Without -f or -k the commands read the live cluster of the current context.
Only upgrade, uninstall and cleanup --apply change the cluster, and they ask for
confirmation. Pods with which commands inspect nodes or test networks are always
deleted again.

Exit codes:
  0  nothing to report
  1  error
  2  warnings, with --fail-on=warning or --strict
  3  blockers, unless --fail-on=never
  4  refused or stopped because it would not be safe
  5  interrupted or paused; the state is saved
convert --diff has the exit codes of kubectl diff: 0 no differences, 1 differences,
more for errors.`

// How long an interrupted command may take to end: one that only reads files, and one that may have to
// delete pods or to store its state.
const (
	stopsWithin    = time.Second
	cleansUpWithin = time.Minute
)

// Run runs a command line and returns its exit code. When ctx ends, Run returns soon, even if the
// command waits for a pipe that nobody writes to or reads from.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	silence()
	var connected atomic.Bool
	root := newRoot(streams, &connected)
	root.SetArgs(args)
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.Args = nil
		group(c)
	}
	done := make(chan int, 1)
	go func() {
		command, err := root.ExecuteContextC(ctx)
		done <- exitCode(command, err, streams)
	}()
	select {
	case code := <-done:
		return code
	case <-ctx.Done():
	}
	limit := stopsWithin
	if connected.Load() {
		limit = cleansUpWithin
	}
	select {
	case code := <-done:
		return code
	case <-time.After(limit):
		_, _ = fmt.Fprintln(streams.ErrOut, "error: interrupted")
		return CodeError
	}
}

// silence drops the log messages of the libraries, which their errors repeat.
func silence() {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	_ = flags.Set("stderrthreshold", "FATAL") // otherwise errors are on standard error in any case
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}

// newRoot returns the root command with all others. It sets connected once a command connects to a
// cluster.
func newRoot(streams genericiooptions.IOStreams, connected *atomic.Bool) *cobra.Command {
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
	flags.WrapConfigFn = func(c *rest.Config) *rest.Config {
		connected.Store(true)
		return c
	}
	flags.AddFlags(root.PersistentFlags())
	app := &app{IOStreams: streams, cluster: &clusterFlags{flags}}
	root.SetUsageTemplate(usage(root.UsageTemplate()))
	root.SetHelpCommand(help())
	root.AddCommand(
		app.scan(), app.convert(), app.explain(), app.get(), app.doctor(),
		app.snapshot(), app.verify(), app.upgrade(), app.cleanup(), app.uninstall(), app.bundle(), app.version(), app.options(),
	)
	root.SetFlagErrorFunc(badFlag)
	completeChoices(root)
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if bad := validation.IsDNS1123Label(*flags.Namespace); *flags.Namespace != "" && len(bad) > 0 {
			return fmt.Errorf("-n is %q, which no namespace is named: %s", *flags.Namespace, bad[0])
		}
		return nil
	}
	return root
}

// app has the streams and flags that all commands share.
type app struct {
	genericiooptions.IOStreams
	cluster *clusterFlags
}

// note prints a line for people, on standard error.
func (a *app) note(format string, args ...any) {
	_, _ = fmt.Fprintf(report.Printable{Writer: a.ErrOut}, format+"\n", args...)
}

// exit prints why the program ends with an exit code.
func (a *app) exit(code exitError, format string, args ...any) error {
	a.note(format, args...)
	return code
}

// exitError ends the program with an exit code. The command has printed the cause.
type exitError int

// Error implements error.
func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// exitCode returns the exit code for a command's error, and prints the error.
func exitCode(command *cobra.Command, err error, streams genericiooptions.IOStreams) int {
	var exit exitError
	switch {
	case err == nil:
		return CodeOK
	case errors.As(err, &exit):
		return int(exit)
	}
	_, _ = fmt.Fprintln(report.Printable{Writer: streams.ErrOut}, "error:", withRemedy(err))
	if f := command.Flags().Lookup("diff"); f != nil && f.Changed {
		return diffTrouble
	}
	return CodeError
}

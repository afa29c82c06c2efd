// Command nadra-cluster starts and stops the test cluster and gives access to it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

const usage = `usage: nadra-cluster COMMAND

  build                                  build what a cluster runs
  up [-nodes N] [-image ARCHIVE]...      start a cluster, building what is missing
  down                                   stop it and remove everything of it
  status                                 list machines, components and nodes
  exec [-node N | -control-plane] [--] COMMAND...
                                         run a command on a node (default 1)
  kubectl ARGUMENT...                    run kubectl, or kubectl nadra, as the administrator
  load [-node N] ARCHIVE...              import images, by default on all nodes
  prune                                  remove outdated builds and logs from the cache, list its size

Every command but build and prune takes -dir FOLDER, the run folder of the cluster.
Exit status: 0 done, 1 error, 2 usage; of exec and kubectl that of the command.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	var exit *exec.ExitError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	case errors.As(err, &exit):
		os.Exit(max(exit.ExitCode(), 1))
	default:
		fmt.Fprintln(os.Stderr, "nadra-cluster:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("wrong usage")

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	commands := map[string]func(context.Context, []string) error{
		"build":   build,
		"up":      up,
		"down":    down,
		"status":  status,
		"exec":    execute,
		"kubectl": kubectl,
		"load":    load,
		"prune":   prune,
		"machine": machine,
	}
	command, ok := commands[args[0]]
	if !ok {
		return errUsage
	}
	return command(ctx, args[1:])
}

// arguments is a flag set with the flag that all commands have.
type arguments struct {
	*flag.FlagSet
	dir *string
}

func newArguments(name string) arguments {
	flags := flag.NewFlagSet("nadra-cluster "+name, flag.ContinueOnError)
	return arguments{FlagSet: flags, dir: flags.String("dir", "", "the run folder of the cluster (default: one in the cache)")}
}

func (a arguments) parse(args []string) error {
	err := a.Parse(args)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	return errUsage // the flag package has printed the error
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

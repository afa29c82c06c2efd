// Command kubectl-nadra is the plugin behind `kubectl nadra`: it reports what a migration to
// claims means for a cluster or its manifests, and performs it. See internal/desk/cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	// Logins of managed clusters.
	_ "k8s.io/client-go/plugin/pkg/client/auth"

	"github.com/nadra-dev/nadra/internal/desk/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal cancels ctx, and a second one ends the process.
	context.AfterFunc(ctx, stop)
	code := cli.Run(ctx, os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	stop()
	os.Exit(code)
}

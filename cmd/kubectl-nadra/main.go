// Command kubectl-nadra is the plugin behind `kubectl nadra`: it says what
// moving to claims means for a cluster or its manifests, and converts them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	// Logins of managed clusters.
	_ "k8s.io/client-go/plugin/pkg/client/auth"

	"github.com/nadra-dev/nadra/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends what can be ended in order, the second one all.
	context.AfterFunc(ctx, stop)
	code := cli.Run(ctx, os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	stop()
	os.Exit(code)
}

// Command kubectl-nadra is the plugin behind `kubectl nadra`: it says what
// moving to claims means for a cluster or its manifests, and converts them.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	// Logins of managed clusters.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/cli"
)

func main() {
	// What the libraries log is in the errors that they return, too.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	stop()
	os.Exit(code)
}

// Command nadra-controller is the part of nadra that is one for a cluster: it
// admits pods, so that those with the networks annotation get claims, and keeps
// the classes, templates and certificates that this stands on. See
// internal/controller and internal/webhook.
//
//	nadra-controller [flags]             run
//	nadra-controller uninstall [flags]   delete what it has made and is not in use
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "nadra-controller:", err)
		stop()
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "uninstall" {
		return uninstall(ctx, args[1:])
	}
	return run(ctx, args)
}

// Command nadra-node is nadra's node driver: it publishes the networks that the node
// can attach as DRA devices, and attaches them to the sandboxes of pods with claims.
// See pkg/driver. Its subcommands (nadra-node help) are what kubectl nadra runs on
// nodes.
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
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "nadra-node:", err)
		stop()
		os.Exit(1)
	}
}

// Command nadra-controller serves nadra's webhooks, which give claims to pods with the networks
// annotation, and maintains the classes, templates and certificates for them. One of its
// replicas leads. See internal/controller and internal/webhook.
//
//	nadra-controller [flags]             run
//	nadra-controller uninstall [flags]   delete the objects that it has created and that are not in use
//	nadra-controller --version           print the version
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/nadra-dev/nadra/internal/version"
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

// command runs the command that the arguments name.
func command(ctx context.Context, args []string) error {
	if version.Asked(args) {
		fmt.Println("nadra-controller", version.Get())
		return nil
	}
	commands := map[string]func(context.Context, []string) error{"certificates": certificates, "uninstall": uninstall}
	if len(args) > 0 && commands[args[0]] != nil {
		return commands[args[0]](ctx, args[1:])
	}
	return run(ctx, args)
}

package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/nadra-dev/nadra/internal/canary"
	"github.com/nadra-dev/nadra/internal/canaryecho"
)

// runCanary serves until ctx ends, which a canary's pod runs. Inspect and ping are run in
// the pod by exec.
func runCanary(ctx context.Context, args []string, out io.Writer) error {
	verb := ""
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	switch verb {
	case "serve":
		return serveCanary(ctx, args)
	case "inspect":
		inspection, err := canaryecho.Inspect()
		if err != nil {
			return err
		}
		return writeReport(out, inspection)
	case "ping":
		return pingCanaries(ctx, args, out)
	}
	return fmt.Errorf("%q is not a command of nadra-node canary: give serve, inspect or ping", verb)
}

func serveCanary(ctx context.Context, args []string) error {
	fs := newFlagSet("canary serve")
	port := fs.Int("port", canary.Port, "UDP port to answer on")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	return canaryecho.Serve(ctx, *port)
}

func pingCanaries(ctx context.Context, args []string, out io.Writer) error {
	var o canaryecho.Options
	fs := newFlagSet("canary ping")
	fs.StringVar(&o.Interface, "interface", "", "interface to ping from (default any)")
	fs.IntVar(&o.Count, "count", 3, "number of requests to each address")
	fs.DurationVar(&o.Wait, "wait", time.Second, "time to wait for each answer")
	fs.IntVar(&o.Port, "port", canary.Port, "UDP port on which canaries answer if ICMP is not permitted")
	if err := fs.Parse(args); err != nil {
		return err
	}
	var targets []netip.Addr
	for _, arg := range fs.Args() {
		a, err := netip.ParseAddr(arg)
		if err != nil {
			return fmt.Errorf("reading the addresses to ping: %w", err)
		}
		targets = append(targets, a)
	}
	pings, err := canaryecho.Run(ctx, o, targets)
	if err != nil {
		return err
	}
	return writeReport(out, pings)
}

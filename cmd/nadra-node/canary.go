package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/nadra-dev/nadra/internal/nodecmd"
	"github.com/nadra-dev/nadra/internal/probe"
)

// runCanary runs serve, inspect or ping. A canary's pod runs serve, which ends with ctx; inspect
// and ping run in the pod by exec.
func runCanary(ctx context.Context, args []string, out io.Writer) error {
	verb := ""
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	switch verb {
	case "serve":
		return serveCanary(ctx, args)
	case "inspect":
		inspection, err := nodecmd.Inspect()
		if err != nil {
			return err
		}
		return writeReport(out, inspection)
	case "ping":
		return pingCanaries(ctx, args, out)
	}
	if strings.TrimLeft(verb, "-") == "h" || verb == "--help" {
		return &helpRequest{newFlagSet("canary")}
	}
	return fmt.Errorf("%q is not a command of nadra-node canary: use serve, inspect or ping", verb)
}

// serveCanary answers pings.
func serveCanary(ctx context.Context, args []string) error {
	fs := newFlagSet("canary serve")
	port := fs.Int("port", probe.CanaryPort, "UDP port to answer on")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	return nodecmd.Serve(ctx, *port)
}

// pingCanaries pings addresses and writes the answers.
func pingCanaries(ctx context.Context, args []string, out io.Writer) error {
	var o nodecmd.PingOptions
	fs := newFlagSet("canary ping")
	fs.StringVar(&o.Interface, "interface", "", "interface to ping from (default any)")
	fs.IntVar(&o.Count, "count", 3, "number of requests to each address")
	fs.DurationVar(&o.Wait, "wait", time.Second, "time to wait for each answer")
	fs.IntVar(&o.Port, "port", probe.CanaryPort, "UDP port on which canaries answer if ICMP is not permitted")
	if err := parseArgs(fs, args); err != nil {
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
	pings, err := nodecmd.PingAll(ctx, o, targets)
	if err != nil {
		return err
	}
	return writeReport(out, pings)
}

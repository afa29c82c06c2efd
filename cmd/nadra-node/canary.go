package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/nadra-dev/nadra/internal/canary"
	"github.com/nadra-dev/nadra/internal/canary/echo"
)

// runCanary is what runs in the pods of `kubectl nadra verify --canary`: serve
// until it is told to end, and, by exec, look and ping.
func runCanary(ctx context.Context, args []string, w io.Writer) error {
	if len(args) == 0 {
		return errors.New("canary: say what to do: serve, look or ping")
	}
	switch verb, rest := args[0], args[1:]; verb {
	case "serve":
		return serveCanary(ctx, rest)
	case "look":
		look, err := echo.Look()
		return writeLine(w, look, err)
	case "ping":
		return pingCanaries(ctx, rest, w)
	default:
		return fmt.Errorf("canary: %q is nothing that it does: serve, look or ping", verb)
	}
}

func serveCanary(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("nadra-node canary serve", flag.ContinueOnError)
	port := fs.Int("port", canary.Port, "UDP port to answer on")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return echo.Serve(ctx, *port)
}

func pingCanaries(ctx context.Context, args []string, w io.Writer) error {
	var o echo.Options
	fs := flag.NewFlagSet("nadra-node canary ping", flag.ContinueOnError)
	fs.StringVar(&o.Interface, "interface", "", "interface to ping from; any unless given")
	fs.IntVar(&o.Count, "count", 3, "requests to each address")
	fs.DurationVar(&o.Wait, "wait", time.Second, "how long to wait for each answer")
	fs.IntVar(&o.Port, "port", canary.Port, "UDP port that others answer on, where ICMP is not permitted")
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
	pings, err := echo.Run(ctx, o, targets)
	return writeLine(w, pings, err)
}

// writeLine writes a value as one line of JSON, unless there is an error.
func writeLine(w io.Writer, v any, err error) error {
	if err != nil {
		return err
	}
	if err := json.NewEncoder(w).Encode(v); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

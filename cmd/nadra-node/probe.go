package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/nadra-dev/nadra/internal/probe/host"
)

// probeCommand is the subcommand that `kubectl nadra doctor --probe` has a pod
// run.
const probeCommand = "probe"

func parseProbe(args []string) (host.Options, error) {
	var o host.Options
	var cdi, bins, confs string
	fs := flag.NewFlagSet("nadra-node "+probeCommand, flag.ContinueOnError)
	fs.StringVar(&o.Root, "host-root", "/", "the host's root directory")
	fs.StringVar(&o.NRISocket, "nri-socket", "/var/run/nri/nri.sock", "NRI socket of the container runtime, in the host")
	fs.StringVar(&cdi, "cdi-dirs", "/etc/cdi,/var/run/cdi", "comma-separated directories of CDI specs, in the host")
	fs.StringVar(&bins, "cni-bin-dirs", "/opt/cni/bin", "comma-separated directories of CNI plugins, in the host")
	fs.StringVar(&confs, "cni-conf-dirs", "/etc/cni/net.d,/etc/cni/multus/net.d", "comma-separated directories of CNI configurations, in the host")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("reading the arguments: %q is none", fs.Arg(0))
	}
	o.CDIDirs, o.BinDirs, o.ConfDirs = strings.Split(cdi, ","), strings.Split(bins, ","), strings.Split(confs, ",")
	return o, nil
}

// runProbe looks at the host and writes one line of JSON.
func runProbe(ctx context.Context, args []string, w io.Writer) error {
	o, err := parseProbe(args)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(w).Encode(host.Look(ctx, o)); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

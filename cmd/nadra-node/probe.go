package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/internal/probe/host"
)

// probeCommand is the subcommand that `kubectl nadra doctor --probe` has a pod
// run, and `kubectl nadra snapshot --from-nodes` with --pods.
const probeCommand = "probe"

// probeOptions are its flags.
type probeOptions struct {
	host host.Options
	// pods says to look into the pods instead of at the host; uids into which.
	pods bool
	uids []string
}

func parseProbe(args []string) (probeOptions, error) {
	var o probeOptions
	var cdi, bins, confs, uids string
	fs := flag.NewFlagSet("nadra-node "+probeCommand, flag.ContinueOnError)
	fs.StringVar(&o.host.Root, "host-root", "/", "the host's root directory")
	fs.StringVar(&o.host.NRISocket, "nri-socket", "/var/run/nri/nri.sock", "NRI socket of the container runtime, in the host")
	fs.StringVar(&cdi, "cdi-dirs", "/etc/cdi,/var/run/cdi", "comma-separated directories of CDI specs, in the host")
	fs.StringVar(&bins, "cni-bin-dirs", "/opt/cni/bin", "comma-separated directories of CNI plugins, in the host")
	fs.StringVar(&confs, "cni-conf-dirs", "/etc/cni/net.d,/etc/cni/multus/net.d", "comma-separated directories of CNI configurations, in the host")
	fs.BoolVar(&o.pods, "pods", false, "look into the network namespaces of the node's pods instead; takes SYS_ADMIN and SYS_PTRACE")
	fs.StringVar(&uids, "pod-uids", "", "comma-separated UIDs of the pods to look into; all unless given")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("reading the arguments: %q is none", fs.Arg(0))
	}
	o.host.CDIDirs, o.host.BinDirs, o.host.ConfDirs = strings.Split(cdi, ","), strings.Split(bins, ","), strings.Split(confs, ",")
	o.uids = items(uids)
	return o, nil
}

// runProbe looks at the host and writes one line of JSON, or one for each pod
// and one more.
func runProbe(ctx context.Context, args []string, w io.Writer) error {
	o, err := parseProbe(args)
	if err != nil {
		return err
	}
	out := json.NewEncoder(w)
	if !o.pods {
		if err := out.Encode(host.Look(ctx, o.host)); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
		return nil
	}
	end, err := host.LookAtPods(ctx, host.PodOptions{Root: o.host.Root, UIDs: o.uids}, func(r probe.PodReport) error { return out.Encode(r) })
	if err == nil {
		err = out.Encode(end)
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

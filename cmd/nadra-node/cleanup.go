package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nadra-dev/nadra/internal/cleanup/host"
	"github.com/nadra-dev/nadra/internal/probe"
	probehost "github.com/nadra-dev/nadra/internal/probe/host"
)

// cleanupCommand is the subcommand that `kubectl nadra cleanup` has a pod run on
// a node.
const cleanupCommand = "cleanup"

func parseCleanup(args []string) (host.Options, error) {
	var o host.Options
	var bins, leases, dirs, socket string
	fs := flag.NewFlagSet("nadra-node "+cleanupCommand, flag.ContinueOnError)
	fs.StringVar(&o.Root, "host-root", "/", "the host's root directory")
	fs.StringVar(&socket, "nri-socket", "/var/run/nri/nri.sock", "NRI socket of the container runtime, in the host")
	fs.StringVar(&o.StateDir, "state-dir", "/var/lib/nadra", "nadra's state, in the host")
	fs.StringVar(&o.RuntimeDir, "runtime-cni-dir", "/var/lib/cni", "where the container runtime has libcni's cache, in the host")
	fs.StringVar(&o.MultusDir, "multus-cni-dir", "/var/lib/cni/multus", "Multus' cniDir, in the host")
	fs.StringVar(&bins, "cni-bin-dirs", "/opt/cni/bin", "comma-separated directories of CNI plugins, in the host")
	fs.StringVar(&leases, "host-local-dirs", "/var/lib/cni/networks", "comma-separated directories in which host-local has one for each network, in the host")
	fs.StringVar(&dirs, "network-dirs", "", "comma-separated directories of host-local of networks that NetworkAttachmentDefinitions have, in the host")
	fs.DurationVar(&o.Policy.OlderThan, "older-than", 10*time.Minute, "what is younger is left alone")
	fs.BoolVar(&o.Policy.AllCNI, "all-cni", false, "free what the cluster's default network has left, too")
	fs.BoolVar(&o.Apply, "apply", false, "free what is found; takes all rights on the host")
	fs.DurationVar(&o.DELTimeout, "del-timeout", 30*time.Second, "how long one DEL may take")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("reading the arguments: %q is none", fs.Arg(0))
	}
	o.BinDirs, o.LeaseDirs, o.Policy.Dirs = strings.Split(bins, ","), items(leases), items(dirs)
	root := o.Root
	o.Sandboxes = func(ctx context.Context) ([]string, error) { return probehost.Sandboxes(ctx, root, socket) }
	o.Ready = func() error { return ownProc(root) } // hides the host's processes, for plugins
	o.VFs = func() ([]probe.VF, error) { return probehost.VFs(root) }
	o.Addresses = func() (host.InUse, error) { return host.Addresses(root) }
	return o, nil
}

// runCleanup writes one line of JSON.
func runCleanup(ctx context.Context, args []string, w io.Writer) error {
	o, err := parseCleanup(args)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(w).Encode(host.Run(ctx, o)); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

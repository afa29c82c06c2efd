package main

import (
	"context"
	"io"
	"time"

	"github.com/nadra-dev/nadra/internal/nodecmd"
	"github.com/nadra-dev/nadra/pkg/cniexec"
)

func parseCleanup(args []string) (nodecmd.CleanupOptions, error) {
	var o nodecmd.CleanupOptions
	var bins, leases, dirs string
	fs := newFlagSet("cleanup")
	fs.StringVar(&o.Root, "host-root", "/", "the host's root directory")
	fs.StringVar(&o.NRISocket, "nri-socket", "/var/run/nri/nri.sock", "NRI socket of the container runtime, in the host")
	fs.StringVar(&o.StateDir, "state-dir", "/var/lib/nadra", "directory of nadra's state, in the host")
	fs.StringVar(&o.RuntimeDir, "runtime-cni-dir", "/var/lib/cni", "directory of the container runtime's CNI cache, in the host")
	fs.StringVar(&o.MultusDir, "multus-cni-dir", "/var/lib/cni/multus", "Multus' cniDir, in the host")
	addBinDirs(fs, &bins)
	fs.StringVar(&leases, "host-local-dirs", "/var/lib/cni/networks", "comma-separated directories in which host-local has a directory for each network, in the host")
	fs.StringVar(&dirs, "network-dirs", "", "comma-separated dataDirs of host-local in NetworkAttachmentDefinitions, in the host")
	fs.DurationVar(&o.OlderThan, "older-than", 10*time.Minute, "age below which nothing is reported")
	fs.BoolVar(&o.AllCNI, "all-cni", false, "free leftovers of the cluster's default network, too")
	fs.BoolVar(&o.Apply, "apply", false, "free what is found; needs all rights on the host")
	fs.DurationVar(&o.DELTimeout, "del-timeout", 30*time.Second, "limit for one DEL")
	if err := parseFlags(fs, args); err != nil {
		return o, err
	}
	var err error
	if o.BinDirs, _, err = cniexec.BinDirs(bins, o.StateDir); err != nil {
		return o, err
	}
	o.LeaseDirs, o.NetworkDirs = splitList(leases), splitList(dirs)
	root := o.Root
	o.Ready = func() error { return mountProc(root) } // hides the host's processes from everything that follows
	return o, nil
}

// runCleanup reports what it found and freed.
func runCleanup(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseCleanup(args)
	if err != nil {
		return err
	}
	return writeReport(out, nodecmd.Cleanup(ctx, o))
}
